package tableflow;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers that wait to be used again: to make one and connect it costs more than a few records. */
final class KafkaConsumers {
  private static final Duration KEPT = Duration.ofSeconds(60);
  private static final int MOST_IDLE = 16;

  private static final Map<String, Object> OURS =
      Map.of(
          ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName(),
          ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName(),
          ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
          ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false",
          ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false",
          // Offsets that have expired are an error, not a reason to go on elsewhere.
          ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none",
          // A reader stops at an end that it knows. The broker would wait half a second for more.
          ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, "20",
          ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "10000",
          ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, String.valueOf(4 << 20));

  private record Idle(Map<String, Object> settings, Consumer<byte[], byte[]> consumer, long since) {}

  private static final Deque<Idle> IDLE = new ArrayDeque<>(); // the latest first

  static {
    Executors.newSingleThreadScheduledExecutor(KafkaConsumers::daemon)
        .scheduleWithFixedDelay(KafkaConsumers::closeOld, 30, 30, TimeUnit.SECONDS);
  }

  private KafkaConsumers() {}

  static Consumer<byte[], byte[]> borrow(Map<String, Object> settings) {
    synchronized (IDLE) {
      for (Iterator<Idle> waiting = IDLE.iterator(); waiting.hasNext(); ) {
        Idle idle = waiting.next();
        if (idle.settings.equals(settings)) {
          waiting.remove();
          return idle.consumer;
        }
      }
    }
    Map<String, Object> all = new HashMap<>(settings);
    all.putAll(OURS);
    return new KafkaConsumer<>(all);
  }

  static void giveBack(Map<String, Object> settings, Consumer<byte[], byte[]> consumer) {
    consumer.unsubscribe();
    synchronized (IDLE) {
      if (IDLE.size() < MOST_IDLE) {
        IDLE.addFirst(new Idle(settings, consumer, System.nanoTime()));
        return;
      }
    }
    consumer.close(Duration.ZERO);
  }

  private static void closeOld() {
    List<Idle> old = new ArrayList<>();
    long limit = System.nanoTime() - KEPT.toNanos();
    synchronized (IDLE) {
      while (!IDLE.isEmpty() && IDLE.peekLast().since - limit < 0) {
        old.add(IDLE.removeLast());
      }
    }
    old.forEach(idle -> idle.consumer.close(Duration.ZERO));
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "tableflow-kafka-consumers");
    thread.setDaemon(true);
    return thread;
  }
}

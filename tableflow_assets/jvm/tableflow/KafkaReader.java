package tableflow;

import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/** What one task reads: its ranges, side by side, by one consumer. */
final class KafkaReader implements PartitionReader<InternalRow> {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final Duration ANSWER = Duration.ofSeconds(10);
  private static final long MOST_SILENCE_NANOS = Duration.ofSeconds(60).toNanos();

  private final Map<String, Object> settings;
  private final KafkaColumn[] columns;
  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final Map<TopicPartition, Long> positions = new HashMap<>(); // of the ranges still unread
  private final Consumer<byte[], byte[]> consumer;
  private Iterator<ConsumerRecord<byte[], byte[]>> polled = Collections.emptyIterator();
  private ConsumerRecord<byte[], byte[]> current;
  private boolean isBroken;

  KafkaReader(Map<String, Object> settings, List<KafkaScan.Range> ranges, KafkaColumn[] columns) {
    this.settings = settings;
    this.columns = columns;
    for (KafkaScan.Range range : ranges) {
      if (range.start() < range.end()) {
        ends.put(range.partition(), range.end());
        positions.put(range.partition(), range.start());
      }
    }
    consumer = KafkaConsumers.borrow(settings);
    consumer.assign(ends.keySet());
    positions.forEach(consumer::seek);
  }

  @Override
  public boolean next() {
    while (true) {
      while (polled.hasNext()) {
        current = polled.next();
        if (current.offset() < ends.get(partitionOf(current))) {
          return true;
        }
      }
      if (positions.isEmpty()) {
        return false;
      }
      try {
        poll();
      } catch (RuntimeException failure) {
        isBroken = true;
        throw failure;
      }
    }
  }

  private void poll() {
    long giveUp = System.nanoTime() + MOST_SILENCE_NANOS;
    do {
      if (System.nanoTime() - giveUp > 0) {
        throw silence();
      }
      polled = consumer.poll(POLL).iterator();
    } while (!moveOn() && !polled.hasNext());
  }

  /** Whether a position moved: the marker of a transaction takes an offset too, and is no record. */
  private boolean moveOn() {
    boolean hasMoved = false;
    Set<TopicPartition> done = new HashSet<>();
    for (Map.Entry<TopicPartition, Long> unread : positions.entrySet()) {
      long position = consumer.position(unread.getKey(), ANSWER);
      hasMoved |= position != unread.getValue();
      unread.setValue(position);
      if (position >= ends.get(unread.getKey())) {
        done.add(unread.getKey());
      }
    }
    positions.keySet().removeAll(done);
    consumer.pause(done);
    return hasMoved;
  }

  private IllegalStateException silence() {
    Map<TopicPartition, Long> logEnds = consumer.endOffsets(positions.keySet(), ANSWER);
    return new IllegalStateException(
        "Kafka sent nothing for " + MOST_SILENCE_NANOS / 1_000_000_000 + " s. Still unread, from: "
            + positions + "; the log ends at: " + logEnds);
  }

  private static TopicPartition partitionOf(ConsumerRecord<byte[], byte[]> record) {
    return new TopicPartition(record.topic(), record.partition());
  }

  @Override
  public InternalRow get() {
    Object[] values = new Object[columns.length];
    for (int i = 0; i < values.length; i++) {
      values[i] = columns[i].of(current);
    }
    return new GenericInternalRow(values);
  }

  @Override
  public void close() {
    if (isBroken) {
      consumer.close(Duration.ZERO);
    } else {
      KafkaConsumers.giveBack(settings, consumer);
    }
  }
}

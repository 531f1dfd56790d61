package tableflow;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a query asks for: the tasks as the caller has cut them, and of each record only some columns. */
final class KafkaScan implements ScanBuilder, SupportsPushDownRequiredColumns, Scan, Batch {
  private static final String PREFIX = "kafka.";

  private final String topic;
  private final long[][][] splits;
  private final Map<String, Object> client;
  private StructType columns = KafkaColumn.SCHEMA;

  KafkaScan(CaseInsensitiveStringMap options) {
    topic = options.get("topic");
    client = clientSettings(options);
    try {
      splits = new ObjectMapper().readValue(options.get("splits"), long[][][].class);
    } catch (JsonProcessingException notSplits) {
      throw new IllegalArgumentException(notSplits);
    }
  }

  private static Map<String, Object> clientSettings(CaseInsensitiveStringMap options) {
    Map<String, Object> settings = new HashMap<>();
    options.forEach(
        (name, value) -> {
          String lower = name.toLowerCase(Locale.ROOT);
          if (lower.startsWith(PREFIX)) {
            settings.put(lower.substring(PREFIX.length()), value);
          }
        });
    return settings;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public Scan build() {
    return this;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "Kafka topic " + topic + ", tasks: " + splits.length;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return Stream.of(splits).map(this::split).toArray(InputPartition[]::new);
  }

  private Split split(long[][] ranges) {
    return new Split(
        Stream.of(ranges)
            .map(r -> new Range(new TopicPartition(topic, Math.toIntExact(r[0])), r[1], r[2]))
            .toList());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    KafkaColumn[] wanted =
        Stream.of(columns.fieldNames()).map(KafkaColumn::named).toArray(KafkaColumn[]::new);
    return new Readers(client, wanted);
  }

  /** The offsets from start to before the end. */
  record Range(TopicPartition partition, long start, long end) implements java.io.Serializable {}

  record Split(List<Range> ranges) implements InputPartition {}

  private record Readers(Map<String, Object> client, KafkaColumn[] columns)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition split) {
      return new KafkaReader(client, ((Split) split).ranges(), columns);
    }
  }
}

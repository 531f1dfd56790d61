package tableflow;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Exactly the committed records of some offset ranges of one topic.
 *
 * <p>Spark's own source makes a task and a consumer for every Kafka partition, however little is in it, and
 * takes records one by one. Here the caller says what one task reads, and consumers are used again.
 *
 * <p>Options: {@code topic}; {@code splits}, JSON, for every task a list of [partition, start, end]; and what
 * Kafka's client needs, prefixed with {@code kafka.}.
 */
public final class KafkaRecords implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return KafkaColumn.SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Log(properties.get("topic"));
  }

  private record Log(String topic) implements SupportsRead {
    @Override
    public String name() {
      return "Kafka topic " + topic;
    }

    @Override
    public StructType schema() {
      return KafkaColumn.SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new KafkaScan(options);
    }
  }
}

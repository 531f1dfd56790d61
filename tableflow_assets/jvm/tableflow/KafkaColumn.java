package tableflow;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** What a record has, as Spark's own Kafka source names and types it. */
enum KafkaColumn {
  KEY("key", DataTypes.BinaryType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return record.key();
    }
  },
  VALUE("value", DataTypes.BinaryType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return record.value();
    }
  },
  TOPIC("topic", DataTypes.StringType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return UTF8String.fromString(record.topic());
    }
  },
  PARTITION("partition", DataTypes.IntegerType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return record.partition();
    }
  },
  OFFSET("offset", DataTypes.LongType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return record.offset();
    }
  },
  TIMESTAMP("timestamp", DataTypes.TimestampType) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      return 1000 * Math.min(Math.max(record.timestamp(), EARLIEST_MS), LATEST_MS);
    }
  },
  HEADERS("headers", DataTypes.createArrayType(HeaderColumns.TYPE)) {
    @Override
    Object of(ConsumerRecord<byte[], byte[]> record) {
      Header[] headers = record.headers().toArray();
      if (headers.length == 0) {
        return null;
      }
      Object[] rows = new Object[headers.length];
      for (int i = 0; i < headers.length; i++) {
        rows[i] = HeaderColumns.rowOf(headers[i]);
      }
      return new GenericArrayData(rows);
    }
  };

  // As source/timestamps.py has it: Kafka takes any number, calendars do not.
  private static final long EARLIEST_MS = -2_208_988_800_000L; // 1900
  private static final long LATEST_MS = 253_370_764_800_000L; // 9999

  static final StructType SCHEMA = schema();

  private final String column;
  private final DataType type;

  KafkaColumn(String column, DataType type) {
    this.column = column;
    this.type = type;
  }

  abstract Object of(ConsumerRecord<byte[], byte[]> record);

  static KafkaColumn named(String column) {
    for (KafkaColumn candidate : values()) {
      if (candidate.column.equals(column)) {
        return candidate;
      }
    }
    throw new IllegalArgumentException("A record of Kafka has no " + column + ".");
  }

  private static StructType schema() {
    StructType schema = new StructType();
    for (KafkaColumn column : values()) {
      schema = schema.add(column.column, column.type);
    }
    return schema;
  }

  private static final class HeaderColumns {
    static final StructType TYPE =
        new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);

    static InternalRow rowOf(Header header) {
      return new GenericInternalRow(
          new Object[] {UTF8String.fromString(header.key()), header.value()});
    }
  }
}

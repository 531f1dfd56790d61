package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** A value that is one column: those of `json_shape.Leaf`, which says what stands in the JSON. */
enum Leaf implements Shape {
  BOOLEAN(DataTypes.BooleanType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      if (!json.currentToken().isBoolean()) {
        throw Misfit.FOUND;
      }
      return json.currentToken() == JsonToken.VALUE_TRUE;
    }
  },
  INT(DataTypes.IntegerType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return whole32(json);
    }
  },
  LONG(DataTypes.LongType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return whole(json);
    }
  },
  FLOAT(DataTypes.FloatType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      needNumber(json);
      float number = json.getFloatValue();
      if (Float.isInfinite(number)) {
        throw Misfit.FOUND;
      }
      return number;
    }
  },
  DOUBLE(DataTypes.DoubleType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      needNumber(json);
      double number = json.getDoubleValue();
      if (Double.isInfinite(number)) {
        throw Misfit.FOUND;
      }
      return number;
    }
  },
  STRING(DataTypes.StringType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      Shape.need(json, JsonToken.VALUE_STRING);
      return Text.of(json);
    }
  },
  DATE(DataTypes.DateType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return Times.date(text(json));
    }
  },
  TIMESTAMP(DataTypes.TimestampType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return Times.timestamp(text(json));
    }
  },
  BYTES(DataTypes.BinaryType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      Shape.need(json, JsonToken.VALUE_STRING);
      return json.getBinaryValue();
    }
  },
  EPOCH_DAYS(DataTypes.DateType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return whole32(json);
    }
  },
  EPOCH_MILLIS(DataTypes.TimestampType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return Math.multiplyExact(whole(json), 1000L);
    }
  },
  JSON(DataTypes.StringType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return Anything.asText(json);
    }
  },
  NULL(DataTypes.StringType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      return Anything.asText(json);
    }
  },
  /** Anything, as the root of a document without a schema: only looked at. */
  AS_SENT(DataTypes.StringType) {
    @Override
    public Object value(JsonParser json) throws IOException {
      json.skipChildren();
      return null;
    }
  };

  private final DataType type;

  Leaf(DataType type) {
    this.type = type;
  }

  @Override
  public DataType type() {
    return type;
  }

  private static String text(JsonParser json) throws IOException {
    Shape.need(json, JsonToken.VALUE_STRING);
    return json.getText();
  }

  private static void needNumber(JsonParser json) throws IOException {
    if (!json.currentToken().isNumeric()) {
      throw Misfit.FOUND;
    }
  }

  private static int whole32(JsonParser json) throws IOException {
    long number = whole(json);
    if (number != (int) number) {
      throw Misfit.FOUND;
    }
    return (int) number;
  }

  /** `1.0` is one, too; but an exponent may make a number of any length of a few characters. */
  private static long whole(JsonParser json) throws IOException {
    needNumber(json);
    if (json.currentToken() == JsonToken.VALUE_NUMBER_INT) {
      return json.getLongValue(); // or an exception, as below
    }
    String text = json.getText();
    if (text.indexOf('e') >= 0 || text.indexOf('E') >= 0) {
      throw Misfit.FOUND;
    }
    return new BigDecimal(text).longValueExact();
  }
}

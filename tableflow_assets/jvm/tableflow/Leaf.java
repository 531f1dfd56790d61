package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.math.BigDecimal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** A value that is one column: those of `json_shape.Leaf`, which says what stands in the JSON. */
enum Leaf implements Shape {
  BOOLEAN(DataTypes.BooleanType, Leaf::trueOrFalse),
  INT(DataTypes.IntegerType, Leaf::whole32),
  LONG(DataTypes.LongType, Leaf::whole),
  FLOAT(DataTypes.FloatType, json -> (float) finite(number(json).getFloatValue())),
  DOUBLE(DataTypes.DoubleType, json -> finite(number(json).getDoubleValue())),
  STRING(DataTypes.StringType, json -> Text.of(string(json))),
  DATE(DataTypes.DateType, json -> Times.date(string(json).getText())),
  TIMESTAMP(DataTypes.TimestampType, json -> Times.timestamp(string(json).getText())),
  BYTES(DataTypes.BinaryType, json -> string(json).getBinaryValue()),
  EPOCH_DAYS(DataTypes.DateType, Leaf::whole32),
  EPOCH_MILLIS(DataTypes.TimestampType, json -> Math.multiplyExact(whole(json), 1000L)),
  JSON(DataTypes.StringType, Anything::asText),
  NULL(DataTypes.StringType, Anything::asText),
  /** Anything, as the root of a document without a schema: only looked at. */
  AS_SENT(DataTypes.StringType, Leaf::passedOver);

  private interface Reader {
    Object read(JsonParser json) throws IOException;
  }

  private final DataType type;
  private final Reader reader;

  Leaf(DataType type, Reader reader) {
    this.type = type;
    this.reader = reader;
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public Object value(JsonParser json) throws IOException {
    return reader.read(json);
  }

  private static Object passedOver(JsonParser json) throws IOException {
    json.skipChildren();
    return null;
  }

  private static boolean trueOrFalse(JsonParser json) throws IOException {
    if (!json.currentToken().isBoolean()) {
      throw Misfit.FOUND;
    }
    return json.currentToken() == JsonToken.VALUE_TRUE;
  }

  private static JsonParser string(JsonParser json) throws IOException {
    Shape.need(json, JsonToken.VALUE_STRING);
    return json;
  }

  private static JsonParser number(JsonParser json) throws IOException {
    if (!json.currentToken().isNumeric()) {
      throw Misfit.FOUND;
    }
    return json;
  }

  private static double finite(double number) throws IOException {
    if (Double.isInfinite(number)) {
      throw Misfit.FOUND;
    }
    return number;
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
    if (number(json).currentToken() == JsonToken.VALUE_NUMBER_INT) {
      return json.getLongValue(); // or an exception, as below
    }
    String text = json.getText();
    if (text.indexOf('e') >= 0 || text.indexOf('E') >= 0) {
      throw Misfit.FOUND;
    }
    return new BigDecimal(text).longValueExact();
  }
}

package tableflow;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Bytes in; the value, or the class of what is wrong with them, out. In one pass: what Spark's own functions do
 * in several takes longer than reading the record from Kafka.
 */
public final class ReadJson implements ScalarFunction<InternalRow> {
  private static final int MOST_LEVELS = 1000;
  private static final UTF8String MALFORMED = UTF8String.fromString("malformed_json");
  private static final UTF8String DOES_NOT_FIT = UTF8String.fromString("json_does_not_fit_schema");
  private static final UTF8String NO_TEXT = UTF8String.fromString("invalid_utf8");

  // Strict by default: no comments, no NaN, no quotes left out, no leading zeros or plus signs.
  private static final JsonFactory JACKSON =
      JsonFactory.builder()
          .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
          .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
          // It would refuse an object whose keys only look as if somebody had chosen them to be slow.
          .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW)
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(MOST_LEVELS)
                  .maxStringLength(Integer.MAX_VALUE)
                  .maxNameLength(Integer.MAX_VALUE)
                  .build())
          .build();

  private static final ObjectMapper NAMES = new ObjectMapper();

  private final String name;
  private final transient int headerBytes;
  private final transient Shape shape;

  /**
   * The name is JSON itself: <code>{"headerBytes": 5, "shape": …}</code>, with a shape as in {@link Shape#of}.
   */
  ReadJson(String name) {
    this.name = name;
    try {
      JsonNode said = NAMES.readTree(name);
      this.headerBytes = said.required("headerBytes").asInt();
      this.shape = Shape.of(said.required("shape"));
    } catch (IOException notJson) {
      throw new IllegalArgumentException(notJson);
    }
  }

  /** All else follows from the name: nothing else is sent to the workers. */
  private Object readResolve() {
    return new ReadJson(name);
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType};
  }

  @Override
  public DataType resultType() {
    return new StructType().add("value", shape.type()).add("problem", DataTypes.StringType);
  }

  /** Spark finds this method by its name. */
  public InternalRow invoke(byte[] data) {
    if (data == null) {
      return null;
    }
    try {
      return result(read(data), null);
    } catch (Exception somethingIsWrong) {
      return lookTwice(data);
    }
  }

  private Object read(byte[] data) throws IOException {
    if (!Text.mayBeginJson(data, headerBytes)) {
      throw Misfit.FOUND;
    }
    Object value = readWhole(JACKSON.createParser(data, headerBytes, data.length - headerBytes), shape);
    if (shape == Leaf.AS_SENT) {
      return Text.valid(body(data));
    }
    Text.check(data, headerBytes);
    return value;
  }

  private static Object readWhole(JsonParser parser, Shape shape) throws IOException {
    try (JsonParser json = parser) {
      json.nextToken();
      Object value = shape.read(json);
      if (json.nextToken() != null || (value == null && shape.isRecord())) {
        throw Misfit.FOUND;
      }
      return value;
    }
  }

  /**
   * What is wrong with bytes that could not be read: there is time to find out. As characters: from bytes,
   * Jackson does not read a name with half a character in it, which is correct JSON.
   */
  private InternalRow lookTwice(byte[] data) {
    if (data.length < headerBytes) {
      return result(null, MALFORMED);
    }
    UTF8String body = body(data);
    if (!body.isValid()) {
      return result(null, NO_TEXT);
    }
    if (!Text.mayBeginJson(data, headerBytes) || !fits(body, Leaf.AS_SENT)) {
      return result(null, MALFORMED);
    }
    if (!fits(body, shape)) {
      return result(null, DOES_NOT_FIT);
    }
    return shape == Leaf.AS_SENT ? result(body, null) : result(null, NO_TEXT);
  }

  private static boolean fits(UTF8String body, Shape shape) {
    try {
      readWhole(JACKSON.createParser(body.toString()), shape);
      return true;
    } catch (Exception misfit) {
      return false;
    }
  }

  private static InternalRow result(Object value, UTF8String problem) {
    return new GenericInternalRow(new Object[] {value, problem});
  }

  private UTF8String body(byte[] data) {
    return UTF8String.fromBytes(data, headerBytes, data.length - headerBytes);
  }

  @Override
  public String name() {
    return name;
  }

  // Calls of the same function on the same column are one call to Spark, and it compiles them once.
  @Override
  public boolean equals(Object other) {
    return other instanceof ReadJson && ((ReadJson) other).name.equals(name);
  }

  @Override
  public int hashCode() {
    return name.hashCode();
  }

  @Override
  public String canonicalName() {
    return getClass().getName() + " " + name;
  }

  @Override
  public String toString() {
    return "read_json"; // in Spark's plans; the name can be long
  }
}

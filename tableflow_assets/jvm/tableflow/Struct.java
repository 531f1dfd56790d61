package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.io.SerializedString;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * An object of known properties. Of two with the same name the last counts; unknown ones are passed over, or kept
 * together in the last column.
 */
final class Struct implements Shape {
  private static final int UNKNOWN = -1;
  private static final int END = -2;

  private final Map<String, Integer> places = new HashMap<>();
  private final SerializableString[] keys;
  private final Shape[] shapes;
  private final Shape additional; // null if they are passed over
  private final StructType type;

  Struct(JsonNode properties, JsonNode rest) {
    keys = new SerializableString[properties.size()];
    shapes = new Shape[properties.size()];
    StructType columns = new StructType();
    for (int place = 0; place < shapes.length; place++) {
      JsonNode property = properties.get(place);
      shapes[place] = Shape.of(property.get(2));
      keys[place] = new SerializedString(property.get(0).asText());
      places.put(keys[place].getValue(), place);
      columns = columns.add(property.get(1).asText(), shapes[place].type());
    }
    additional = rest == null ? null : Shape.of(rest.get(1));
    type = rest == null ? columns : columns.add(rest.get(0).asText(), new MapOf(additional).type());
  }

  @Override
  public boolean isRecord() {
    return true;
  }

  @Override
  public DataType type() {
    return type;
  }

  @Override
  public Object value(JsonParser json) throws IOException {
    Shape.need(json, JsonToken.START_OBJECT);
    Object[] values = new Object[type.length()];
    Map<UTF8String, Object> others = additional == null ? null : new LinkedHashMap<>();
    for (int place = next(json, 0); place != END; place = next(json, place + 1)) {
      UTF8String other = place == UNKNOWN && others != null ? UTF8String.fromString(json.currentName()) : null;
      json.nextToken();
      if (other != null) {
        others.put(other, additional.read(json));
      } else if (place == UNKNOWN) {
        json.skipChildren();
      } else {
        values[place] = shapes[place].read(json);
      }
    }
    if (others != null) {
      values[shapes.length] = MapOf.of(others);
    }
    return new GenericInternalRow(values);
  }

  /** The place of the next property. Mostly they come in order, so it is quickest to ask for that one first. */
  private int next(JsonParser json, int likely) throws IOException {
    String key;
    if (likely < keys.length) {
      if (json.nextFieldName(keys[likely])) {
        return likely;
      }
      key = json.currentToken() == JsonToken.FIELD_NAME ? json.currentName() : null;
    } else {
      key = json.nextFieldName();
    }
    return key == null ? END : places.getOrDefault(key, UNKNOWN);
  }
}

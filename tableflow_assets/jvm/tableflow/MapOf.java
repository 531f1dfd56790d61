package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** An object whose keys are data: none may come twice, for nobody could say which value counts. */
record MapOf(Shape inner) implements Shape {
  @Override
  public DataType type() {
    return DataTypes.createMapType(DataTypes.StringType, inner.type());
  }

  @Override
  public Object value(JsonParser json) throws IOException {
    Shape.need(json, JsonToken.START_OBJECT);
    Map<UTF8String, Object> entries = new LinkedHashMap<>();
    int count = 0;
    for (String key = json.nextFieldName(); key != null; key = json.nextFieldName()) {
      json.nextToken();
      entries.put(UTF8String.fromString(key), inner.read(json));
      count++;
    }
    if (entries.size() < count) {
      throw Misfit.FOUND;
    }
    return of(entries);
  }

  static Object of(Map<UTF8String, Object> entries) {
    return new ArrayBasedMapData(
        new GenericArrayData(entries.keySet().toArray()),
        new GenericArrayData(entries.values().toArray()));
  }
}

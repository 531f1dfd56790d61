package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

record ListOf(Shape element) implements Shape {
  @Override
  public DataType type() {
    return DataTypes.createArrayType(element.type());
  }

  @Override
  public Object value(JsonParser json) throws IOException {
    Shape.need(json, JsonToken.START_ARRAY);
    List<Object> elements = new ArrayList<>();
    while (json.nextToken() != JsonToken.END_ARRAY) {
      elements.add(element.read(json));
    }
    return new GenericArrayData(elements.toArray());
  }
}

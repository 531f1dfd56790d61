package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import org.apache.spark.sql.types.DataType;

/** What a JSON value should be, and how it becomes a value of Spark's. */
interface Shape {
  DataType type();

  /** Of the token that the parser is at, which is not null; leaves it at the value's last one. */
  Object value(JsonParser json) throws IOException;

  /** Every column may be NULL. */
  default Object read(JsonParser json) throws IOException {
    JsonToken token = json.currentToken();
    if (token == JsonToken.VALUE_NULL) {
      return null;
    }
    if (token == null) {
      throw Misfit.FOUND; // there is nothing at all
    }
    return value(json);
  }

  default boolean isRecord() {
    return false;
  }

  /**
   * A leaf by its name, <code>{"list": shape}</code>, <code>{"map": shape}</code>, or
   * <code>{"struct": [[key, column, shape], …]}</code>, with <code>"additional": [column, shape]</code> if the
   * members that are not among those are kept.
   */
  static Shape of(JsonNode said) {
    if (said.isTextual()) {
      return Leaf.valueOf(said.asText());
    }
    if (said.has("list")) {
      return new ListOf(of(said.get("list")));
    }
    if (said.has("map")) {
      return new MapOf(of(said.get("map")));
    }
    return new Struct(said.required("struct"), said.get("additional"));
  }

  static void need(JsonParser json, JsonToken token) throws IOException {
    if (json.currentToken() != token) {
      throw Misfit.FOUND;
    }
  }
}

package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.time.ZoneOffset;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.types.variant.VariantUtil.Type;
import org.apache.spark.unsafe.types.UTF8String;

/** Any JSON, in one spelling: that of Spark's variants. */
final class Anything {
  private static final boolean TAKE_THE_LAST_OF_EQUAL_KEYS = false;

  private Anything() {}

  static UTF8String asText(JsonParser json) throws IOException {
    Variant variant = VariantBuilder.parseJson(json, TAKE_THE_LAST_OF_EQUAL_KEYS);
    String text = variant.toJson(ZoneOffset.UTC);
    // A number beyond all doubles would become this string.
    if (text.contains("\"Infinity\"") || text.contains("\"-Infinity\"")) {
      refuseInfinity(variant);
    }
    return UTF8String.fromString(text);
  }

  private static void refuseInfinity(Variant variant) throws IOException {
    if (variant.getType() == Type.DOUBLE && Double.isInfinite(variant.getDouble())) {
      throw Misfit.FOUND;
    }
    if (variant.getType() == Type.ARRAY) {
      for (int place = 0; place < variant.arraySize(); place++) {
        refuseInfinity(variant.getElementAtIndex(place));
      }
    }
    if (variant.getType() == Type.OBJECT) {
      for (int place = 0; place < variant.objectSize(); place++) {
        refuseInfinity(variant.getFieldAtIndex(place).value);
      }
    }
  }
}

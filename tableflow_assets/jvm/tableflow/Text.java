package tableflow;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Whether bytes are text that every engine can read, and could be JSON at all. */
final class Text {
  private static final String MAY_BEGIN = "{[\"-0123456789tfn \t\r\n";
  private static final long ONES = 0x0101010101010101L;
  private static final long HIGH_BITS = ONES << 7;
  private static final long BACKSLASHES = ONES * '\\';

  private Text() {}

  /** JSON is UTF-8 without a mark of byte order. Jackson would also take others, which it guesses from these. */
  static boolean mayBeginJson(byte[] data, int start) {
    if (data.length <= start || MAY_BEGIN.indexOf(data[start]) < 0) {
      return false;
    }
    for (int place = start + 1; place < Math.min(start + 4, data.length); place++) {
      if (data[place] == 0) {
        return false;
      }
    }
    return true;
  }

  /** Of the parser's string. Mostly its characters are its bytes: no need for a String in between. */
  static UTF8String of(JsonParser json) throws IOException {
    char[] characters = json.getTextCharacters();
    int start = json.getTextOffset();
    byte[] bytes = new byte[json.getTextLength()];
    int allBits = 0;
    for (int place = 0; place < bytes.length; place++) {
      char character = characters[start + place];
      allBits |= character;
      bytes[place] = (byte) character;
    }
    return allBits < 0x80 ? UTF8String.fromBytes(bytes) : UTF8String.fromString(json.getText());
  }

  static UTF8String valid(UTF8String text) throws IOException {
    if (!text.isValid()) {
      throw Misfit.FOUND;
    }
    return text;
  }

  /** Of bytes that are correct JSON: that they are UTF-8, and that no escape is half a character. */
  static void check(byte[] data, int start) throws IOException {
    long highBits = 0;
    boolean hasEscapes = false;
    int place = start;
    for (; place + 8 <= data.length; place += 8) { // eight at once: this looks at every byte of every record
      long eight = Platform.getLong(data, Platform.BYTE_ARRAY_OFFSET + place);
      highBits |= eight;
      hasEscapes |= hasBackslash(eight);
    }
    for (; place < data.length; place++) {
      highBits |= data[place];
      hasEscapes |= data[place] == '\\';
    }
    if ((highBits & HIGH_BITS) != 0) {
      valid(UTF8String.fromBytes(data, start, data.length - start));
    }
    if (hasEscapes) {
      checkEscapes(data, start);
    }
  }

  /** Where the two differ in no bit, zero minus one borrows from the highest. */
  private static boolean hasBackslash(long eight) {
    long zeros = eight ^ BACKSLASHES;
    return ((zeros - ONES) & ~zeros & HIGH_BITS) != 0;
  }

  private static void checkEscapes(byte[] data, int start) throws IOException {
    for (int place = start; place < data.length; place++) {
      if (data[place] != '\\') {
        continue;
      }
      place++; // to what is escaped
      if (data[place] != 'u') {
        continue;
      }
      char first = escaped(data, place + 1);
      if (Character.isHighSurrogate(first)
          && data[place + 5] == '\\'
          && data[place + 6] == 'u'
          && Character.isLowSurrogate(escaped(data, place + 7))) {
        place += 6;
      } else if (Character.isSurrogate(first)) {
        throw Misfit.FOUND;
      }
    }
  }

  private static char escaped(byte[] data, int place) {
    int code = 0;
    for (int digit = 0; digit < 4; digit++) {
      code = code * 16 + Character.digit(data[place + digit], 16);
    }
    return (char) code;
  }
}

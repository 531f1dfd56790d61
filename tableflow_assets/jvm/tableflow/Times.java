package tableflow;

import java.io.IOException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;

/**
 * Days and moments as RFC 3339 writes them, and a little more: a moment may have a space in place of its T, no
 * offset (then it is in UTC, whatever the session's time zone), or one without a colon. A leap second, the last
 * of a day in UTC, begins with the next day: so POSIX counts it, whose days all have as many seconds.
 *
 * <p>Spark reads much more than that, guesses, and takes longer for it than for the rest of a record.
 */
final class Times {
  private static final int DATE_END = 10;
  private static final int SECONDS_END = 19;
  private static final int LEAP_SECOND = 60;
  private static final int SECONDS_OF_A_DAY = 86_400;
  private static final int MICROS = 6; // digits of a fraction; further ones are dropped

  private Times() {}

  /** In days since 1970. */
  static Object date(String text) throws IOException {
    if (text.length() != DATE_END || !hasDateForm(text)) {
      throw Misfit.FOUND;
    }
    return (int) LocalDate.of(number(text, 0, 4), number(text, 5, 7), number(text, 8, 10)).toEpochDay();
  }

  /** In microseconds since 1970. */
  static Object timestamp(String text) throws IOException {
    if (!hasMomentForm(text)) {
      throw Misfit.FOUND;
    }
    int fractionEnd = fractionEnd(text);
    int seconds = number(text, 17, 19);
    int leap = seconds == LEAP_SECOND ? 1 : 0;
    LocalDateTime written =
        LocalDateTime.of(
            number(text, 0, 4),
            number(text, 5, 7),
            number(text, 8, 10),
            number(text, 11, 13),
            number(text, 14, 16),
            seconds - leap);
    long second = written.toEpochSecond(offset(text, fractionEnd)) + leap;
    if (leap == 1 && second % SECONDS_OF_A_DAY != 0) {
      throw Misfit.FOUND;
    }
    return second * 1_000_000 + micros(text, fractionEnd);
  }

  private static boolean hasDateForm(String text) {
    return text.charAt(4) == '-' && text.charAt(7) == '-';
  }

  private static boolean hasMomentForm(String text) {
    return text.length() >= SECONDS_END
        && hasDateForm(text)
        && "Tt ".indexOf(text.charAt(DATE_END)) >= 0
        && text.charAt(13) == ':'
        && text.charAt(16) == ':';
  }

  private static int fractionEnd(String text) throws IOException {
    if (text.length() == SECONDS_END || text.charAt(SECONDS_END) != '.') {
      return SECONDS_END;
    }
    int end = SECONDS_END + 1;
    while (end < text.length() && isDigit(text.charAt(end))) {
      end++;
    }
    if (end == SECONDS_END + 1) {
      throw Misfit.FOUND; // nothing after the point
    }
    return end;
  }

  private static int micros(String text, int fractionEnd) throws IOException {
    int start = SECONDS_END + 1;
    int end = Math.min(fractionEnd, start + MICROS);
    int micros = number(text, start, end);
    for (int digits = Math.max(end - start, 0); digits < MICROS; digits++) {
      micros *= 10;
    }
    return micros;
  }

  private static ZoneOffset offset(String text, int start) throws IOException {
    int length = text.length() - start;
    if (length == 0 || (length == 1 && "Zz".indexOf(text.charAt(start)) >= 0)) {
      return ZoneOffset.UTC;
    }
    boolean hasForm = length == 5 || (length == 6 && text.charAt(start + 3) == ':');
    if (!hasForm || "+-".indexOf(text.charAt(start)) < 0) {
      throw Misfit.FOUND;
    }
    int sign = text.charAt(start) == '-' ? -1 : 1;
    int hours = number(text, start + 1, start + 3);
    int minutes = number(text, text.length() - 2, text.length());
    return ZoneOffset.ofHoursMinutes(sign * hours, sign * minutes);
  }

  private static int number(String text, int start, int end) throws IOException {
    int number = 0;
    for (int place = start; place < end; place++) {
      if (!isDigit(text.charAt(place))) {
        throw Misfit.FOUND;
      }
      number = number * 10 + text.charAt(place) - '0';
    }
    return number;
  }

  private static boolean isDigit(char character) {
    return character >= '0' && character <= '9';
  }
}

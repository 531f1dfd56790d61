package tableflow;

import java.io.IOException;

/** Something is not what it should be. That is an answer, not an accident, so it has no stack trace. */
final class Misfit extends IOException {
  static final Misfit FOUND = new Misfit();

  private Misfit() {}

  @Override
  public Throwable fillInStackTrace() {
    return this;
  }
}

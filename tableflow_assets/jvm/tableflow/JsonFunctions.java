package tableflow;

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog with a function for every shape that JSON can have.
 *
 * <p>A function's result has one type, and that depends on the shape. Spark asks for the type when it knows no
 * more of a call than the function's name: so the name says it all, see {@link ReadJson#ReadJson(String)}.
 */
public final class JsonFunctions implements FunctionCatalog {
  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0]; // there is no end of them
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    try {
      return new Unbound(new ReadJson(identifier.name()));
    } catch (IllegalArgumentException notOurs) {
      throw new NoSuchFunctionException(identifier);
    }
  }

  private record Unbound(ReadJson function) implements UnboundFunction {
    @Override
    public BoundFunction bind(StructType arguments) {
      if (arguments.length() != 1 || !arguments.apply(0).dataType().equals(DataTypes.BinaryType)) {
        throw new UnsupportedOperationException("It reads one binary column.");
      }
      return function;
    }

    @Override
    public String name() {
      return function.name();
    }

    @Override
    public String description() {
      return "Reads JSON, whole and strictly, as a value of one shape.";
    }
  }
}

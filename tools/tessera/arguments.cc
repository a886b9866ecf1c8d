// SPDX-License-Identifier: Apache-2.0
// Sizes of arguments from a flag, or from the arguments.
#include "tools/tessera/arguments.h"

#include <charconv>
#include <filesystem>
#include <sstream>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/npy.h"
#include "src/text/read/types.h"
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

Dims sizes_of_item(const std::string& item) {
  Dims out;
  std::istringstream in(item);
  for (std::string size; std::getline(in, size, 'x');) {
    std::int64_t n = -1;
    const auto [stop, error] = std::from_chars(size.data(), size.data() + size.size(), n);
    if (error != std::errc() || stop != size.data() + size.size() || n < 0) {
      throw UsageError("--shapes: '" + item + "' is no shape; valid: 8x16, or nothing");
    }
    out.push_back(n);
  }
  return out;
}

std::string argument_text(const text::Signature& program, std::size_t n) {
  return "argument " + std::to_string(n) + " ('" + program.parameters[n].name + "') of " +
         program.name + " is " + text::mlir_type(program.parameters[n].type);
}

}  // namespace

void add_shapes_flag(CLI::App* command, std::string* value) {
  command->add_option("--shapes", *value,
                      "A shape for each argument of a program with dims of unknown size: 8x16;;4 "
                      "(nothing for arguments whose sizes are known)");
}

GivenArguments arguments_of_flag(const std::string& shapes) {
  const auto given = [shapes](const text::Signature& program) {
    const std::size_t count = program.parameters.size();
    std::vector<std::string> items;
    std::istringstream in(shapes);
    for (std::string item; std::getline(in, item, ';');) items.push_back(item);
    if (items.size() > count) {
      throw UsageError("--shapes: " + std::to_string(items.size()) + " shapes for " +
                       std::to_string(count) + " arguments of " + program.name);
    }
    items.resize(count);
    std::vector<text::GivenArgument> out;
    for (std::size_t n = 0; n < count; ++n) {
      const Shape& type = program.parameters[n].type;
      if (items[n].empty() && text::is_open(type)) {
        throw UsageError(argument_text(program, n) +
                         ", and its sizes are not known; give --shapes, or run it with --inputs");
      }
      out.push_back({items[n].empty() ? type.dims : sizes_of_item(items[n])});
      if (text::fits(type, Shape(type.dtype, out.back().sizes))) continue;
      throw UsageError("--shapes: " + argument_text(program, n) + "; '" + items[n] +
                       "' doesn't fit that");
    }
    return std::optional(std::move(out));
  };
  return {given, !shapes.empty()};
}

GivenArguments arguments_of_inputs(const std::string& folder) {
  const auto given = [folder](const text::Signature& program) {
    std::vector<text::GivenArgument> out;
    for (std::size_t n = 0; n < program.parameters.size(); ++n) {
      const Shape& type = program.parameters[n].type;
      text::GivenArgument& argument = out.emplace_back(text::GivenArgument{type.dims});
      const bool integers = is_integer(type.dtype) || type.dtype == DType::pred;
      if (!text::is_open(type) && !(integers && type.rank() <= 1)) continue;
      const std::string path =
          (std::filesystem::path(folder) / ("arg" + std::to_string(n) + ".npy")).string();
      const Literal value = read_npy(path, type.dtype);
      if (!text::fits(Shape(value.dtype(), type.dims), value.shape())) {
        throw ShapeError(path + " is " + value.shape().to_string() + ", and " +
                         argument_text(program, n));
      }
      argument.sizes = value.dims();
      if (integers && type.rank() <= 1) argument.value = to_vector<std::int64_t>(value);
    }
    return std::optional(std::move(out));
  };
  return {given};
}

}  // namespace tessera::tool

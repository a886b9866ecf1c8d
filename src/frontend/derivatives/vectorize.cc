// SPDX-License-Identifier: Apache-2.0
// vectorize: a vmap for each leading dimension.
#include <tessera/functions/vectorize.h>
#include <tessera/vmap.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "src/frontend/trace/trace.h"

namespace tessera::internal {

namespace {

using CoreNames = std::vector<std::string>;

/// "(m,n),(n)" as lists of names.
class CoreReader {
 public:
  CoreReader(const std::string& text, Location location) : text_(text), location_(location) {
    for (const char c : text) {
      if (!std::isspace(static_cast<unsigned char>(c))) rest_ += c;
    }
  }

  std::vector<CoreNames> lists() {
    std::vector<CoreNames> out;
    if (!at('(')) return out;
    do {
      out.push_back(list());
    } while (take(','));
    return out;
  }
  void arrow() {
    if (!take('-') || !take('>')) fail();
  }
  void end() {
    if (place_ != rest_.size()) fail();
  }

 private:
  CoreNames list() {
    CoreNames names;
    if (!take('(')) fail();
    if (take(')')) return names;
    do {
      std::string name;
      while (place_ < rest_.size() &&
             (std::isalnum(static_cast<unsigned char>(rest_[place_])) || rest_[place_] == '_')) {
        name += rest_[place_++];
      }
      if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) fail();
      names.push_back(name);
    } while (take(','));
    if (!take(')')) fail();
    return names;
  }
  bool at(char c) const { return place_ < rest_.size() && rest_[place_] == c; }
  bool take(char c) {
    if (!at(c)) return false;
    ++place_;
    return true;
  }
  [[noreturn]] void fail() const {
    throw ValueError(
        "vectorize: the signature \"" + text_ + "\" can't be read; it has the form (m,n),(n)->(m)",
        location_);
  }

  std::string text_, rest_;
  std::size_t place_ = 0;
  Location location_;
};

struct CoreSignature {
  std::vector<CoreNames> arguments, results;
  bool stated = false;
};

CoreSignature read_core(const std::string& text, std::size_t arguments, Location location) {
  CoreSignature out;
  if (text.empty()) {
    out.arguments.resize(arguments);
    return out;
  }
  out.stated = true;
  CoreReader reader(text, location);
  out.arguments = reader.lists();
  reader.arrow();
  out.results = reader.lists();
  reader.end();
  if (out.arguments.size() != arguments) {
    throw ValueError("vectorize: the signature \"" + text + "\" states " +
                         std::to_string(out.arguments.size()) + " arguments, and there are " +
                         std::to_string(arguments),
                     location);
  }
  return out;
}

/// The sizes of a signature's names; ShapeError where an array doesn't fit.
class CoreSizes {
 public:
  CoreSizes(const VectorizeOptions& options, Location location)
      : options_(options), location_(location) {}

  /// The last dims of a shape are those that the names say.
  void read(const std::string& what, const Shape& shape, const CoreNames& names) {
    if (shape.rank() < std::int64_t(names.size())) {
      throw ShapeError(
          who(what, shape) + " has fewer than " + std::to_string(names.size()) + " dimensions",
          location_);
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::int64_t size = shape.dims[shape.dims.size() - names.size() + i];
      const auto [at, fresh] = sizes_.emplace(names[i], size);
      if (fresh || at->second == size) continue;
      throw ShapeError(who(what, shape) + " has size " + std::to_string(size) + " for " + names[i] +
                           ", which is " + std::to_string(at->second) + " elsewhere",
                       location_);
    }
  }
  std::string who(const std::string& what, const Shape& shape) const {
    return options_.name + " with signature \"" + options_.signature + "\": " + what + ", " +
           shape.to_string() + ",";
  }

 private:
  const VectorizeOptions& options_;
  Location location_;
  std::map<std::string, std::int64_t> sizes_;
};

void check_core_results(const std::vector<Array>& results, const CoreSignature& signature,
                        CoreSizes sizes, const VectorizeOptions& options, Location location) {
  if (!signature.stated) return;
  if (results.size() != signature.results.size()) {
    throw ValueError(options.name + ": the signature \"" + options.signature + "\" states " +
                         std::to_string(signature.results.size()) +
                         " results, and the function returns " + std::to_string(results.size()),
                     location);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Shape shape = frontend::abstract_value(results[i]).shape;
    const std::string what = "result " + std::to_string(i);
    if (shape.rank() != std::int64_t(signature.results[i].size())) {
      throw ShapeError(sizes.who(what, shape) + " must have " +
                           std::to_string(signature.results[i].size()) + " dimensions",
                       location);
    }
    sizes.read(what, shape, signature.results[i]);
  }
}

}  // namespace

std::vector<Array> vectorize_core(const CallInfo& info, Prototype* prototype,
                                  const VectorizeOptions& options, Location location) {
  if (info.leaves.size() != info.arg_count) {
    throw TypeError(options.name + ": the arguments must be arrays", location);
  }
  const CoreSignature signature = read_core(options.signature, info.leaves.size(), location);
  CoreSizes sizes(options, location);
  // Of each argument the leading dims, last first.
  std::vector<Dims> loops;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    const Shape shape = frontend::abstract_value(info.leaves[i]).shape;
    sizes.read("argument " + std::to_string(i), shape, signature.arguments[i]);
    Dims loop(shape.dims.begin(), shape.dims.end() - std::ptrdiff_t(signature.arguments[i].size()));
    std::reverse(loop.begin(), loop.end());
    depth = std::max(depth, loop.size());
    loops.push_back(std::move(loop));
  }
  Dims common(depth, 1);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    for (std::size_t d = 0; d < loops[i].size(); ++d) {
      if (loops[i][d] == 1 || loops[i][d] == common[d]) continue;
      if (common[d] != 1) {
        throw ShapeError(sizes.who("argument " + std::to_string(i),
                                   frontend::abstract_value(info.leaves[i]).shape) +
                             " doesn't broadcast: leading dimension " + std::to_string(d + 1) +
                             ", counted from the last one, has size " +
                             std::to_string(loops[i][d]) + ", and elsewhere " +
                             std::to_string(common[d]),
                         location);
      }
      common[d] = loops[i][d];
    }
  }
  return frontend::as_one_program(options.name, location, [&] {
    std::vector<Array> leaves;
    for (std::size_t i = 0; i < info.leaves.size(); ++i) {
      // Dims of size 1 aren't mapped over.
      Dims kept;
      const Dims& dims = frontend::abstract_value(info.leaves[i]).shape.dims;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (d >= loops[i].size() || dims[d] != 1) kept.push_back(dims[d]);
      }
      leaves.push_back(reshape({info.leaves[i], location}, kept));
    }
    // level(d): mapped over leading dims 0 .. d - 1, counted from the last one.
    std::function<std::vector<Array>(std::size_t, const std::vector<Array>&, Prototype*)> level =
        [&](std::size_t d, const std::vector<Array>& given, Prototype* result) {
          if (d == 0) {
            std::vector<Array> out = info.trace(given, result);
            check_core_results(out, signature, sizes, options, location);
            return out;
          }
          if (common[d - 1] == 1) return level(d - 1, given, result);
          std::vector<AxesTree> axes;
          for (const Dims& loop : loops) {
            const bool mapped = d <= loop.size() && loop[d - 1] != 1;
            axes.push_back(mapped ? AxesTree(0) : AxesTree(nullptr));
          }
          CallInfo entry = info;
          entry.leaves = given;
          entry.trace = [&](const std::vector<Array>& inner, Prototype* p) {
            return level(d - 1, inner, p);
          };
          VmapOptions mapped;
          mapped.in_axes = AxesTree::sequence(std::move(axes));
          mapped.name = options.name;
          return vmap_core(entry, result, mapped, location);
        };
    std::vector<Array> out = level(depth, leaves, prototype);
    std::vector<std::int64_t> missing;
    for (std::size_t d = 0; d < depth; ++d) {
      if (common[d] == 1) missing.push_back(std::int64_t(depth - 1 - d));
    }
    for (Array& x : out) {
      if (!missing.empty()) x = expand_dims({x, location}, missing);
    }
    return out;
  });
}

}  // namespace tessera::internal

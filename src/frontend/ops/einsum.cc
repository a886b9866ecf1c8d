// SPDX-License-Identifier: Apache-2.0
// einsum: parses the spec, reduces each operand to one dim per label, then multiplies pairs until
// one array is left.
#include <algorithm>
#include <map>
#include <set>

#include <tessera/ops/elementwise.h>

#include "src/base/contains.h"
#include "src/frontend/ops/identity.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/products.h"

namespace tessera {

using frontend::composed;
using internal::impl_of;

namespace {

/// A letter, or a dim under the ellipsis: -1 is its last one, -2 the one before, ...
using Label = int;
using Labels = std::vector<Label>;

struct Spec {
  std::vector<Labels> inputs;
  Labels output;
};

std::string label_text(Label label) {
  return label > 0 ? std::string("'") + char(label) + "'"
                   : "dim " + std::to_string(label) + " of the ellipsis";
}

class SpecReader {
 public:
  SpecReader(const std::string& text, const std::vector<Array>& arrays, Location location)
      : text_(text), arrays_(arrays), location_(location) {}

  Spec read() {
    std::string compact;
    for (char c : text_) {
      if (c != ' ') compact += c;
    }
    const std::size_t arrow = compact.find("->");
    const std::string left = compact.substr(0, arrow);
    std::vector<std::string> terms;
    std::size_t at = 0;
    while (true) {
      const std::size_t comma = left.find(',', at);
      terms.push_back(left.substr(at, comma == std::string::npos ? comma : comma - at));
      if (comma == std::string::npos) break;
      at = comma + 1;
    }
    if (terms.size() != arrays_.size()) {
      fail(std::to_string(terms.size()) + " operands are named and " +
           std::to_string(arrays_.size()) + " given");
    }
    Spec spec;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      spec.inputs.push_back(input(terms[i], i));
    }
    spec.output = arrow == std::string::npos ? implicit_output(spec)
                                             : output(compact.substr(arrow + 2), spec);
    return spec;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw ValueError("einsum(\"" + text_ + "\"): " + why, location_);
  }

  /// The letters, and the position of the ellipsis if there is one.
  std::pair<Labels, std::ptrdiff_t> letters(const std::string& term) const {
    Labels out;
    std::ptrdiff_t dots = -1;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (term.compare(i, 3, "...") == 0) {
        if (dots >= 0) fail("\"" + term + "\" has two ellipses");
        dots = std::ptrdiff_t(out.size());
        i += 2;
      } else if ((term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z')) {
        out.push_back(term[i]);
      } else {
        fail(std::string("'") + term[i] +
             "' is no label; valid are letters, \"...\", ',' and "
             "one \"->\"");
      }
    }
    return {out, dots};
  }

  Labels input(const std::string& term, std::size_t i) {
    auto [out, dots] = letters(term);
    const std::int64_t rank = arrays_[i].ndim(), named = std::int64_t(out.size());
    if (dots < 0 ? rank != named : rank < named) {
      fail("\"" + term + "\" names " + std::to_string(named) + " dims and operand " +
           std::to_string(i) + " is " + arrays_[i].type_string());
    }
    if (dots >= 0) {
      for (std::int64_t d = named - rank; d < 0; ++d) out.insert(out.begin() + dots++, int(d));
      hidden_ = std::max(hidden_, rank - named);
    }
    return out;
  }

  Labels hidden() const {
    Labels out;
    for (std::int64_t d = -hidden_; d < 0; ++d) out.push_back(int(d));
    return out;
  }

  Labels implicit_output(const Spec& spec) const {
    std::map<Label, int> count;
    for (const Labels& labels : spec.inputs) {
      for (Label l : labels) ++count[l];
    }
    Labels out = hidden();
    for (const auto& [label, n] : count) {
      if (label > 0 && n == 1) out.push_back(label);
    }
    return out;
  }

  Labels output(const std::string& term, const Spec& spec) const {
    if (term.find("->") != std::string::npos) fail("two arrows");
    auto [out, dots] = letters(term);
    for (std::size_t i = 0; i < out.size(); ++i) {
      bool known = false;
      for (const Labels& labels : spec.inputs) known = known || contains(labels, out[i]);
      if (!known) fail(label_text(out[i]) + " of the result is in no operand");
      if (std::count(out.begin(), out.end(), out[i]) > 1) {
        fail(label_text(out[i]) + " stands twice in the result");
      }
    }
    if (dots >= 0) {
      const Labels dims = hidden();
      out.insert(out.begin() + dots, dims.begin(), dims.end());
    } else if (hidden_ > 0) {
      fail("operands have dims under an ellipsis and the result has no \"...\"");
    }
    return out;
  }

  const std::string& text_;
  const std::vector<Array>& arrays_;
  Location location_;
  std::int64_t hidden_ = 0;
};

/// An array with one label per dim.
struct Term {
  Array array;
  Labels labels;
};

class Einsum {
 public:
  Einsum(const std::string& text, Spec spec, const std::vector<Array>& arrays, Location location)
      : spec_(std::move(spec)), location_(location) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      terms_.push_back({arrays[i], spec_.inputs[i]});
      const Dims& dims = arrays[i].shape();
      for (std::size_t d = 0; d < dims.size(); ++d) {
        std::int64_t& size = sizes_.emplace(spec_.inputs[i][d], 1).first->second;
        if (dims[d] == 1) continue;
        if (size != 1 && size != dims[d]) {
          throw ShapeError("einsum(\"" + text + "\"): " + label_text(spec_.inputs[i][d]) +
                               " has size " + std::to_string(size) + " and, in operand " +
                               std::to_string(i) + " (" + arrays[i].type_string() + "), " +
                               std::to_string(dims[d]) + "; they must be equal or 1",
                           location);
        }
        size = dims[d];
      }
    }
  }

  Array run() {
    for (Term& term : terms_) {
      drop_repeats(term);
      drop_ones(term);
    }
    for (std::size_t i = 0; i < terms_.size(); ++i) sum_unneeded(i);
    while (terms_.size() > 1) {
      const auto [i, j] = cheapest_pair();
      Term product = multiply_sizes(terms_[i], terms_[j], needed_besides(i, j));
      terms_.erase(terms_.begin() + std::ptrdiff_t(j));
      terms_[i] = std::move(product);
    }
    return arranged(terms_[0]);
  }

 private:
  std::int64_t size(Label label) const { return sizes_.at(label); }

  /// "iij" to "ij": takes the diagonal.
  void drop_repeats(Term& term) {
    for (std::size_t b = 1; b < term.labels.size(); ++b) {
      const auto first = std::find(term.labels.begin(), term.labels.end(), term.labels[b]);
      const std::size_t a = std::size_t(first - term.labels.begin());
      if (a >= b) continue;
      const Dims& dims = term.array.shape();
      if (dims[a] == dims[b]) {
        term.array = frontend::masked_diagonal(term.array, std::int64_t(a), std::int64_t(b), 0,
                                               location_, "einsum");
        term.labels.erase(first);
      } else {  // one of them is 1 and broadcasts
        const std::size_t one = dims[a] == 1 ? a : b;
        Dims rest = dims;
        rest.erase(rest.begin() + std::ptrdiff_t(one));
        term.array = frontend::reshaped(term.array, rest, location_);
        term.labels.erase(term.labels.begin() + std::ptrdiff_t(one));
      }
      --b;
    }
  }

  /// Removes dims of size 1 whose label is larger in another term: they broadcast.
  void drop_ones(Term& term) {
    Dims dims;
    Labels labels;
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      const std::int64_t have = term.array.shape()[d];
      if (have == 1 && size(term.labels[d]) != 1) continue;
      dims.push_back(have);
      labels.push_back(term.labels[d]);
    }
    term.array = frontend::reshaped(term.array, dims, location_);
    term.labels = std::move(labels);
  }

  /// Labels of the result and of all terms except two (which may be the same).
  std::set<Label> needed_besides(std::size_t i, std::size_t j) const {
    std::set<Label> out(spec_.output.begin(), spec_.output.end());
    for (std::size_t k = 0; k < terms_.size(); ++k) {
      if (k != i && k != j) out.insert(terms_[k].labels.begin(), terms_[k].labels.end());
    }
    return out;
  }

  void sum_unneeded(std::size_t i) {
    Term& term = terms_[i];
    const std::set<Label> needed = needed_besides(i, i);
    Dims dims;
    Labels rest;
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      if (needed.count(term.labels[d])) {
        rest.push_back(term.labels[d]);
      } else {
        dims.push_back(std::int64_t(d));
      }
    }
    if (dims.empty()) return;
    const DType t = term.array.dtype();
    const ir::Opcode op = t == DType::pred ? ir::Opcode::or_ : ir::Opcode::add;
    term.array = frontend::reduce_dims(
        op, term.array, dims, frontend::identity(op, t, "einsum", location_), location_, "einsum");
    term.labels = std::move(rest);
  }

  /// The pair whose product takes the fewest multiplications; on a tie the one with the smaller
  /// result, then the first one.
  std::pair<std::size_t, std::size_t> cheapest_pair() const {
    std::pair<std::size_t, std::size_t> best{0, 1};
    std::pair<double, double> best_cost{-1, 0};
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      for (std::size_t j = i + 1; j < terms_.size(); ++j) {
        std::set<Label> all(terms_[i].labels.begin(), terms_[i].labels.end());
        all.insert(terms_[j].labels.begin(), terms_[j].labels.end());
        const std::set<Label> needed = needed_besides(i, j);
        double work = 1, result = 1;
        for (Label l : all) {
          work *= double(size(l));
          if (needed.count(l)) result *= double(size(l));
        }
        if (best_cost.first < 0 || std::pair(work, result) < best_cost) {
          best = {i, j};
          best_cost = {work, result};
        }
      }
    }
    return best;
  }

  Term multiply_sizes(const Term& a, const Term& b, const std::set<Label>& needed) const {
    ir::DotAttrs attrs;
    Labels batch, left, right;
    for (std::size_t d = 0; d < a.labels.size(); ++d) {
      const Label l = a.labels[d];
      const auto other = std::find(b.labels.begin(), b.labels.end(), l);
      if (other == b.labels.end()) {
        left.push_back(l);
        continue;
      }
      const auto at = std::int64_t(other - b.labels.begin());
      if (needed.count(l)) {
        attrs.lhs_batch.push_back(std::int64_t(d));
        attrs.rhs_batch.push_back(at);
        batch.push_back(l);
      } else {
        attrs.lhs_contracting.push_back(std::int64_t(d));
        attrs.rhs_contracting.push_back(at);
      }
    }
    for (Label l : b.labels) {
      if (!contains(a.labels, l)) right.push_back(l);
    }
    Labels out = batch;
    out.insert(out.end(), left.begin(), left.end());
    out.insert(out.end(), right.begin(), right.end());
    // No labels to sum over: an elementwise product.
    if (attrs.lhs_contracting.empty()) return {elementwise(a, b, out), out};
    return {frontend::dotted(a.array, b.array, attrs, {}, location_, "einsum"), out};
  }

  Array elementwise(const Term& a, const Term& b, const Labels& out) const {
    Dims dims;
    for (Label l : out) dims.push_back(size(l));
    std::vector<Array> xs;
    for (const Term* term : {&a, &b}) {
      const auto [array, mapping] = ordered(*term, out);
      xs.push_back(term->labels.size() == out.size()
                       ? array
                       : frontend::broadcast_in_dim(array, dims, mapping, location_, "einsum"));
    }
    return frontend::binary(xs[0].dtype() == DType::pred ? ir::Opcode::and_ : ir::Opcode::multiply,
                            xs[0], xs[1], location_, "einsum");
  }

  /// The term with its dims in the order of `order`, and their positions there.
  std::pair<Array, Dims> ordered(const Term& term, const Labels& order) const {
    Dims perm, mapping;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto found = std::find(term.labels.begin(), term.labels.end(), order[i]);
      if (found == term.labels.end()) continue;
      perm.push_back(found - term.labels.begin());
      mapping.push_back(std::int64_t(i));
    }
    return {frontend::transposed(term.array, perm, location_, "einsum"), mapping};
  }

  Array arranged(const Term& term) const {
    const auto [array, mapping] = ordered(term, spec_.output);
    TESSERA_CHECK(mapping.size() == spec_.output.size(), "einsum lost a dim of its result");
    return array;
  }

  Spec spec_;
  Location location_;
  std::vector<Term> terms_;
  std::map<Label, std::int64_t> sizes_;
};

}  // namespace

Array einsum(const std::string& spec, const std::vector<Array>& arrays, Location location) {
  if (arrays.empty()) throw ValueError("einsum of no arrays; give one or more", location);
  for (const Array& a : arrays) (void)impl_of(a, location);
  const Spec read = SpecReader(spec, arrays, location).read();
  const frontend::TypeNode type = frontend::promote(arrays, location);
  return composed("einsum", location, [&] {
    std::vector<Array> xs;
    for (const Array& a : arrays) {
      xs.push_back(frontend::converted(a, type.dtype, location, type.weak));
    }
    return Einsum(spec, read, xs, location).run();
  });
}
Array einsum(const std::string& spec, Operand a, Operand b) {
  return einsum(spec, {a.array, b.array}, a.location.known() ? a.location : b.location);
}
Array einsum(const std::string& spec, Operand a, Operand b, Operand c) {
  return einsum(spec, {a.array, b.array, c.array}, a.location);
}

}  // namespace tessera

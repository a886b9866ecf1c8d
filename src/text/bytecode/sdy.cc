// SPDX-License-Identifier: Apache-2.0
// Shardy's attributes.
#include "src/text/bytecode/entries.h"

namespace tessera::text {
namespace {

/// The codes of Shardy's bytecode.td.
struct SdyAttribute {
  enum Code : std::uint64_t {
    kManualAxes,
    kMeshAxis,
    kMesh,
    kSubAxisInfo,
    kAxisRef,
    kDimSharding,
    kSharding,
    kShardingPerValue,
    kDimMapping,
    kTensorMapping,
    kRule,
    kAxisRefList,
    kListOfAxisRefLists,
    kAllToAllParam,
    kAllToAllParamList,
    kPartialSharding,
    kPartialShardingPerValue,
    kReducedSharding,
  };
};

/// i, j, ..., z, z_1, ...
std::string factor(std::int64_t n) {
  constexpr std::int64_t kLetters = 'z' - 'i' + 1;
  if (n < 0) return "?";
  if (n < kLetters) return std::string(1, char('i' + n));
  return "z_" + std::to_string(n - kLetters + 1);
}

}  // namespace

// Parts of a sharding have no text of their own outside of it: they stand as they do there.
void EntryTexts::sdy_attribute(ByteReader& in) {
  using A = SdyAttribute;
  const std::uint64_t code = in.varint();
  switch (code) {
    case A::kManualAxes:
    case A::kAxisRefList:
      add("{");
      add_attributes(in);
      return add("}");
    case A::kMeshAxis:
      add_quoted(string_of(in));
      add("=");
      return add_integer(in.signed_varint());
    case A::kMesh: {
      add("#sdy.mesh<[");
      add_attributes(in);
      add("]");
      const std::size_t before = out_.size();
      add(", device_ids=[");
      const std::size_t ids = out_.size();
      add_integers(in);
      if (out_.size() == ids) {
        out_.resize(before);
      } else {
        add("]");
      }
      return add(">");
    }
    case A::kSubAxisInfo:
      return sub_axis(in);
    case A::kAxisRef: {
      add_quoted(string_of(in));
      bool has = false;
      const char* at = in.position();
      const std::uint64_t sub = in.flagged(&has);
      if (!has) return;
      add(":");
      return add_attribute_number(in.checked_index(sub, file_.attributes.size(), at, "attribute"));
    }
    case A::kDimSharding: {
      add("{");
      const std::size_t before = out_.size();
      add_attributes(in);
      if (in.byte() == 0) add(out_.size() == before ? "?" : ", ?");
      add("}");
      bool has = false;
      const std::uint64_t priority = in.flagged(&has);
      if (has) add("p" + std::to_string(priority));
      return;
    }
    case A::kSharding:
    case A::kPartialSharding:
    case A::kReducedSharding:
      return sdy_sharding(in, code != A::kSharding, code == A::kReducedSharding);
    case A::kShardingPerValue:
    case A::kPartialShardingPerValue:
      add("#sdy.sharding_per_value<[");
      add_list(in, "shardings", [&] { add_stripped(in, "#sdy.sharding"); });
      return add("]>");
    case A::kDimMapping:
      for (std::size_t n = in.count("factors"); n > 0; --n) add(factor(in.signed_varint()));
      return;
    case A::kTensorMapping:
    case A::kListOfAxisRefLists:
    case A::kAllToAllParamList:
      add("[");
      add_attributes(in);
      return add("]");
    case A::kRule:
      return sdy_rule(in);
    case A::kAllToAllParam:
      add("{");
      add_attributes(in);
      add("}: ");
      add_integer(in.signed_varint());
      add("->");
      return add_integer(in.signed_varint());
    default:
      add_unknown("sdy", code, false, in);
  }
}

void EntryTexts::add_stripped(ByteReader& in, std::string_view prefix) {
  const std::size_t begin = out_.size();
  add_attribute(in);
  if (std::string_view(out_).substr(begin).starts_with(prefix)) out_.erase(begin, prefix.size());
}

void EntryTexts::sdy_sharding(ByteReader& in, bool partial, bool reduced) {
  add("#sdy.sharding<");
  // A mesh itself, or the name of one.
  add_stripped(in, "#sdy.");
  add(", [");
  add_attributes(in);
  add("]");
  const auto axes = [&](std::string_view open) {
    const std::size_t before = out_.size();
    add(open);
    const std::size_t list = out_.size();
    add_attributes(in);
    if (out_.size() == list) {
      out_.resize(before);
      return before;
    }
    add("}");
    return list - 1;  // where the bracket stands
  };
  axes(", replicated={");
  if (partial) {
    const std::size_t bracket = axes(", unreduced={");
    if (reduced) {
      const char* at = in.position();
      const std::int64_t kind = in.signed_varint();
      if (kind < 0 || kind > 2) {
        in.fail_at(at, "there is no kind of partial values number " + std::to_string(kind));
      }
      if (kind != 0 && bracket != out_.size()) out_.insert(bracket, kind == 1 ? "max" : "min");
    }
  }
  add(">");
}

// <([i, j], [k])->([i]) {i=8, j=4, k=2} reduction={j}, custom>
void EntryTexts::sdy_rule(ByteReader& in) {
  std::vector<std::int64_t> sizes(in.count("factors"));
  for (std::int64_t& size : sizes) size = in.signed_varint();
  add("#sdy.op_sharding_rule<(");
  add_attributes(in);
  add(")->(");
  add_attributes(in);
  add(")");
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    add((n == 0 ? " {" : ", ") + factor(std::int64_t(n)) + "=" + std::to_string(sizes[n]));
  }
  if (!sizes.empty()) add("}");
  for (const char* name : {"reduction", "need_replication", "permutation", "blocked_propagation"}) {
    const std::size_t count = in.count("factors");
    for (std::size_t n = 0; n < count; ++n) {
      add(n == 0 ? std::string(" ") + name + "={" : std::string(", "));
      add(factor(in.signed_varint()));
    }
    if (count > 0) add("}");
  }
  add(in.byte() != 0 ? ", custom>" : ">");
}

}  // namespace tessera::text

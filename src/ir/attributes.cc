// SPDX-License-Identifier: Apache-2.0
// What needs to know all kinds of attributes at once: one table, so that no other source has to.
#include "src/ir/attributes.h"

#include <array>

namespace tessera::ir {

bool operator==(const ManualComputationAttrs& a, const ManualComputationAttrs& b) {
  const bool same_axes =
      a.mesh == b.mesh || (a.mesh != nullptr && b.mesh != nullptr && *a.mesh == *b.mesh);
  return static_cast<const CallAttrs&>(a) == static_cast<const CallAttrs&>(b) && same_axes &&
         a.manual_axes == b.manual_axes && a.in_shardings == b.in_shardings &&
         a.out_shardings == b.out_shardings;
}

struct Attributes::OfKind {
  void (*destroy)(Node*);
  bool (*equal)(const Node&, const Node&);

  template <class A>
  static constexpr OfKind make() {
    return {[](Node* node) { delete static_cast<NodeOf<A>*>(node); },
            [](const Node& a, const Node& b) {
              return static_cast<const NodeOf<A>&>(a).value ==
                     static_cast<const NodeOf<A>&>(b).value;
            }};
  }
  template <class... Kinds>
  static constexpr std::array<OfKind, sizeof...(Kinds)> table(AttributeKindList<Kinds...>) {
    return {make<Kinds>()...};
  }
  static const OfKind& of(const Node& node) {
    static constexpr auto all = table(AttributeKinds{});
    return all[std::size_t(node.kind) - 1];
  }
};

void Attributes::destroy(Node* node) { OfKind::of(*node).destroy(node); }

const CallAttrs* Attributes::call_attrs() const {
  const CallAttrs* out = nullptr;
  visit([&]<class A>(const A& attrs) {
    if constexpr (HasCallAttrs<A>) out = &attrs;
  });
  return out;
}

CallAttrs* Attributes::edit_call_attrs() { return edit_call_attrs(AttributeKinds{}); }

template <class... Kinds>
CallAttrs* Attributes::edit_call_attrs(AttributeKindList<Kinds...>) {
  CallAttrs* out = nullptr;
  const auto edit = [&]<class A>(const A*) {
    if constexpr (HasCallAttrs<A>) {
      if (out == nullptr) out = edit_if<A>();
    }
  };
  (edit(static_cast<const Kinds*>(nullptr)), ...);
  return out;
}

bool Attributes::equal(const Node& a, const Node& b) {
  return a.kind == b.kind && OfKind::of(a).equal(a, b);
}

}  // namespace tessera::ir

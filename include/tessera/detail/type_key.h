// SPDX-License-Identifier: Apache-2.0
// C++ types as values: keys of caches, and checked casts of what is kept without its type.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <tessera/error.h>

namespace tessera::internal {

/// Identifies a C++ type.
///
/// Each type has an object of its own, whose address is the key. (std::type_index may compare
/// names, so that types of the same name in the anonymous namespaces of two files could be taken
/// for one.) With hidden symbols a type may have several keys, one per library: this costs an extra
/// trace, no more.
class TypeKey {
 public:
  TypeKey() = default;
  template <class T>
  static TypeKey of() {
    return TypeKey(&Tag<T>::tag);
  }
  friend bool operator==(const TypeKey&, const TypeKey&) = default;
  std::size_t hash() const { return std::hash<const void*>()(tag_); }
  /// The type as the compiler prints it: "Pair(tessera::Array, int)". For messages: different types
  /// may share a name.
  std::string name() const;

 private:
  using Text = const char* (*)();
  template <class T>
  struct Tag {
    static const char* text() { return __PRETTY_FUNCTION__; }
    // Not const: linkers may fold equal constants.
    inline static Text tag = &text;
  };
  explicit TypeKey(Text* tag) : tag_(tag) {}

  Text* tag_ = nullptr;
};

[[noreturn]] void throw_kept_type(TypeKey kept, TypeKey requested);

/// The tree that a traced function returned, without its arrays: the results of all calls are
/// copies of it. It knows its type; `as` with another type throws an InternalError.
class Prototype {
 public:
  Prototype() = default;
  template <class T>
  explicit Prototype(std::shared_ptr<T> tree) : tree_(std::move(tree)), type_(TypeKey::of<T>()) {}

  template <class T>
  T& as() const {
    if (!(type_ == TypeKey::of<T>())) throw_kept_type(type_, TypeKey::of<T>());
    return *static_cast<T*>(tree_.get());
  }

 private:
  std::shared_ptr<void> tree_;
  TypeKey type_;
};

}  // namespace tessera::internal

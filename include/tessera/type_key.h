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

/// Says which C++ type is meant.
///
/// Each type has an object of its own, and its address is the key. std::type_index compares names
/// where a compiler doesn't mark those that a source file keeps to itself, so that two types of one
/// name in two files could pass for each other. Where libraries hide their symbols one type may
/// have several keys, which costs a trace and no more.
class TypeKey {
 public:
  TypeKey() = default;
  template <class T>
  static TypeKey of() {
    return TypeKey(&Tag<T>::tag);
  }
  friend bool operator==(const TypeKey&, const TypeKey&) = default;
  std::size_t hash() const { return std::hash<const void*>()(tag_); }
  /// The type as the compiler prints it: "Pair(tessera::Array, int)". For messages: types may share
  /// it.
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

[[noreturn]] void throw_kept_type(TypeKey kept, TypeKey asked);

/// The tree that a traced function returned, without its arrays: each call's result is made after
/// it. Knows its type; asking for another one is an InternalError.
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

// SPDX-License-Identifier: Apache-2.0
// A value that its copies share until one of them is written to.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera {

/// As a T, in the size of a pointer: a copy costs one count, and memory is taken only where the
/// value is other than T(). Copies may be read and dropped by several threads at once.
template <class T>
class Cow {
 public:
  Cow() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the same thing in another place
  Cow(T value) : node_(new Node(std::move(value))) {}
  Cow(const Cow& other) noexcept : node_(other.node_) {
    if (node_) node_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Cow(Cow&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Cow& operator=(Cow other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Cow() {
    if (node_ && node_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete node_;
  }

  const T& operator*() const {
    static const T none{};
    return node_ ? node_->value : none;
  }
  const T* operator->() const { return &**this; }
  /// For writing: nobody else sees it.
  T& edit() {
    if (!node_) {
      node_ = new Node();
    } else if (node_->owners.load(std::memory_order_acquire) != 1) {
      *this = Cow(node_->value);
    }
    return node_->value;
  }

  friend bool operator==(const Cow& a, const Cow& b) { return a.node_ == b.node_ || *a == *b; }

 private:
  struct Node {
    Node() = default;
    explicit Node(T v) : value(std::move(v)) {}
    std::atomic<std::uint32_t> owners{1};
    T value{};
  };
  Node* node_ = nullptr;
};

}  // namespace tessera

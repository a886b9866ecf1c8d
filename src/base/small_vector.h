// SPDX-License-Identifier: Apache-2.0
// SmallVector: a vector of trivial values that stores the first few inline.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace tessera {

/// Like std::vector<T>, with up to `N` elements stored inline.
template <class T, std::uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  SmallVector() : in_place_{} {}
  explicit SmallVector(std::size_t n, T value = T()) : SmallVector() { resize(n, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector() {
    insert(end(), values.begin(), values.end());
  }
  template <class It, class = std::enable_if_t<!std::is_integral_v<It>>>
  SmallVector(It first, It last) : SmallVector() {
    insert(end(), first, last);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): an implicit conversion without loss
  SmallVector(const std::vector<T>& values) : SmallVector(values.begin(), values.end()) {}
  SmallVector(const SmallVector& other) : size_(other.size_) {
    if (other.capacity_ == kInPlace) {
      // All of them, whatever the size: no loop.
      std::copy(other.in_place_, other.in_place_ + kInPlace, in_place_);
    } else if (size_ <= kInPlace) {
      std::copy(other.elsewhere_, other.elsewhere_ + size_, in_place_);
    } else {
      elsewhere_ = new T[size_];
      capacity_ = size_;
      std::copy(other.elsewhere_, other.elsewhere_ + size_, elsewhere_);
    }
  }
  SmallVector(SmallVector&& other) noexcept : SmallVector() { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~SmallVector() { release(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return capacity_ > kInPlace ? elsewhere_ : in_place_; }
  const T* data() const { return capacity_ > kInPlace ? elsewhere_ : in_place_; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  T& operator[](std::size_t i) { return data()[i]; }
  T operator[](std::size_t i) const { return data()[i]; }
  T& at(std::size_t i) {
    check(i);
    return data()[i];
  }
  T at(std::size_t i) const {
    check(i);
    return data()[i];
  }
  T& front() { return *begin(); }
  T front() const { return *begin(); }
  T& back() { return *(end() - 1); }
  T back() const { return *(end() - 1); }

  void reserve(std::size_t n) {
    if (n > capacity_) grow(n);
  }
  void clear() { size_ = 0; }
  void resize(std::size_t n, T value = T()) {
    reserve(n);
    if (n > size_) std::fill(data() + size_, data() + n, value);
    size_ = std::uint32_t(n);
  }
  void push_back(T value) {
    if (size_ == capacity_) grow(std::size_t(size_) + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  template <class It, class = std::enable_if_t<!std::is_integral_v<It>>>
  void assign(It first, It last) {
    clear();
    insert(end(), first, last);
  }
  void assign(std::size_t n, T value) {
    clear();
    resize(n, value);
  }
  iterator insert(const_iterator at, T value) { return insert(at, &value, &value + 1); }
  /// The range must not be part of this list.
  template <class It, class = std::enable_if_t<!std::is_integral_v<It>>>
  iterator insert(const_iterator at, It first, It last) {
    const auto position = at - begin();
    const auto count = std::distance(first, last);
    const std::size_t before = size_;
    resize(before + std::size_t(count));
    std::copy_backward(begin() + position, begin() + std::ptrdiff_t(before), end());
    std::copy(first, last, begin() + position);
    return begin() + position;
  }
  iterator insert(const_iterator at, std::initializer_list<T> values) {
    return insert(at, values.begin(), values.end());
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const auto position = first - begin();
    std::copy(last, cend(), begin() + position);
    size_ -= std::uint32_t(last - first);
    return begin() + position;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend std::strong_ordering operator<=>(const SmallVector& a, const SmallVector& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }
  template <class Predicate>
  friend std::size_t erase_if(SmallVector& list, Predicate predicate) {
    const auto kept = std::remove_if(list.begin(), list.end(), predicate);
    const auto count = std::size_t(list.end() - kept);
    list.erase(kept, list.end());
    return count;
  }

 private:
  static constexpr std::uint32_t kInPlace = N;

  void check(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("SmallVector::at");
  }
  void grow(std::size_t n) {
    const std::size_t capacity = std::max<std::size_t>(n, 2 * std::size_t(capacity_));
    T* to = new T[capacity];
    std::copy(begin(), end(), to);
    release();
    elsewhere_ = to;
    capacity_ = std::uint32_t(capacity);
  }
  void release() {
    if (capacity_ > kInPlace) delete[] elsewhere_;
    capacity_ = kInPlace;
  }
  /// Takes the contents of `other`; this list must hold no memory.
  void take(SmallVector& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ > kInPlace) {
      elsewhere_ = other.elsewhere_;
      other.capacity_ = kInPlace;
    } else {
      std::copy(other.in_place_, other.in_place_ + kInPlace, in_place_);
    }
    other.size_ = 0;
  }

  std::uint32_t size_ = 0, capacity_ = kInPlace;
  union {
    T in_place_[kInPlace];
    T* elsewhere_;
  };
};

/// Lists of small indices: mesh axes, factors. Shardings are copied by the million.
using IndexList = SmallVector<int, 4>;

}  // namespace tessera

// SPDX-License-Identifier: Apache-2.0
// What a program that must not ask the system for memory uses in place of the heap: while a thread
// uses one, the library's `new` and `delete` go to it (in libtessera.so, whose references to these
// operators are wrapped when it is linked), and so does thread_scratch.
// Also called: an arena, a memory pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera {

/// For one thread at a time. Blocks are given back to a list of their size, and used again.
class RunMemory {
 public:
  RunMemory() = default;
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  /// Null if there is no room, and what it has is settled. Until then it grows.
  void* take(std::size_t bytes, std::size_t alignment) noexcept;
  /// False if it isn't this one's.
  bool give(void* block) noexcept;
  /// Takes some room in addition to what was needed so far, and grows no more.
  void settle();
  std::int64_t bytes() const { return bytes_; }
  /// How often there was no room since it was settled: the heap was asked.
  std::int64_t misses() const { return misses_; }

  /// The thread's; null: it uses the heap.
  static RunMemory* current() noexcept;
  /// Whether kernels are run to see what memory they take, on contents that mean nothing: once
  /// each, whatever decides in them.
  static bool rehearses() noexcept;
  class Use {
   public:
    explicit Use(RunMemory* memory, bool rehearses = false) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    RunMemory* before_;
    bool rehearsed_;
  };

  /// In place of the thread's: what is kept from run to run.
  template <class T>
  T& scratch() {
    static constexpr char key = 0;
    if (Kept* kept = find(&key)) return *static_cast<T*>(kept->value);
    return *static_cast<T*>(
        keep({&key, new T, [](void* value) { delete static_cast<T*>(value); }}));
  }

 private:
  struct Kept {
    const void* key = nullptr;
    void* value = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  struct Free {
    Free* next;
  };
  struct Chunk {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kClasses = 256, kMostChunks = 48, kMostKept = 32;

  Kept* find(const void* key) noexcept;
  void* keep(const Kept& kept);
  bool grow(std::size_t bytes) noexcept;

  std::array<Free*, kClasses> free_{};
  std::array<Chunk, kMostChunks> chunks_{};
  std::size_t chunk_count_ = 0;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::array<Kept, kMostKept> kept_{};
  std::size_t kept_count_ = 0;
  std::int64_t bytes_ = 0, misses_ = 0;
  bool settled_ = false;
};

}  // namespace tessera

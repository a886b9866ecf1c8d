// SPDX-License-Identifier: Apache-2.0
// Requests that come one by one are computed several at a time: a queue of bounded length, and
// threads that take batches from it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace serving {

/// What batches are made of.
struct BatcherOptions {
  std::size_t batch = 16;                   ///< most requests of a batch
  std::size_t queue = 64;                   ///< most requests that wait; more are refused
  std::chrono::microseconds patience{500};  ///< how long a batch waits to become full
  int threads = 1;                          ///< batches that are computed at the same time
};

/// `compute` is given up to `batch` inputs and returns an output for each, in order. It is called
/// from several threads at once.
template <class Input, class Output>
class Batcher {
 public:
  using Compute = std::function<std::vector<Output>(const std::vector<Input>&)>;

  Batcher(Compute compute, const BatcherOptions& options)
      : compute_(std::move(compute)), options_(options) {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Batcher() { stop(); }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// The output to come; nothing if the queue is full, or the batcher was stopped.
  std::optional<std::future<Output>> submit(Input input) {
    std::unique_lock lock(mutex_);
    if (stopped_ || waiting_.size() >= options_.queue) return std::nullopt;
    waiting_.push_back({std::move(input), {}});
    std::future<Output> output = waiting_.back().output.get_future();
    lock.unlock();
    arrived_.notify_one();
    return output;
  }

  /// Takes no more requests, computes those that wait, and ends the threads.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    arrived_.notify_all();
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }

 private:
  struct Request {
    Input input;
    std::promise<Output> output;
  };

  /// Waits for a request, then for more of them; empty: there is nothing left to do.
  std::vector<Request> take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
    if (!waiting_.empty()) {
      arrived_.wait_for(lock, options_.patience,
                        [&] { return stopped_ || waiting_.size() >= options_.batch; });
    }
    std::vector<Request> batch;
    while (!waiting_.empty() && batch.size() < options_.batch) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return batch;
  }

  void work() {
    for (;;) {
      std::vector<Request> batch = take();
      if (batch.empty()) {
        // Another thread may have taken what this one had seen.
        const std::lock_guard lock(mutex_);
        if (stopped_ && waiting_.empty()) return;
        continue;
      }
      std::vector<Input> inputs;
      for (Request& r : batch) inputs.push_back(std::move(r.input));
      try {
        std::vector<Output> outputs = compute_(inputs);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          batch[i].output.set_value(std::move(outputs.at(i)));
        }
      } catch (...) {
        for (Request& r : batch) r.output.set_exception(std::current_exception());
      }
    }
  }

  Compute compute_;
  BatcherOptions options_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Request> waiting_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace serving

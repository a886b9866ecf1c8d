// SPDX-License-Identifier: Apache-2.0
// How long requests took, and how they ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

namespace serving {

using Clock = std::chrono::steady_clock;

/// Latencies of the last requests, by which percentiles are computed.
class Latencies {
 public:
  void add(Clock::duration time) {
    const double ms = std::chrono::duration<double, std::milli>(time).count();
    const std::lock_guard lock(mutex_);
    if (ms_.size() < kKept) {
      ms_.push_back(ms);
    } else {
      ms_[std::size_t(count_) % kKept] = ms;
    }
    ++count_;
  }
  long count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// The time in ms that `part` of the requests took at most; 0 without any.
  double percentile(double part) const {
    std::vector<double> sorted;
    {
      const std::lock_guard lock(mutex_);
      sorted = ms_;
    }
    if (sorted.empty()) return 0;
    const auto at = std::min(sorted.size() - 1, std::size_t(part * double(sorted.size())));
    std::nth_element(sorted.begin(), sorted.begin() + std::ptrdiff_t(at), sorted.end());
    return sorted[at];
  }

 private:
  static constexpr std::size_t kKept = 65536;
  mutable std::mutex mutex_;
  std::vector<double> ms_;
  long count_ = 0;
};

struct Statistics {
  Latencies latencies;  ///< of requests that were answered
  std::atomic<long> refused{0}, invalid{0}, failed{0}, batches{0};

  std::string json() const {
    char text[320];
    const long answered = latencies.count(), made = batches;
    std::snprintf(text, sizeof text,
                  "{\"answered\": %ld, \"refused\": %ld, \"invalid\": %ld, \"failed\": %ld, "
                  "\"batches\": %ld, \"mean_batch\": %.2f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, "
                  "\"p99_ms\": %.3f}",
                  answered, refused.load(), invalid.load(), failed.load(), made,
                  made > 0 ? double(answered) / double(made) : 0, latencies.percentile(0.5),
                  latencies.percentile(0.9), latencies.percentile(0.99));
    return text;
  }
};

}  // namespace serving

// SPDX-License-Identifier: Apache-2.0
// The HTTP side: requests are read, checked and put into the batcher's queue.
#pragma once

#include <httplib.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "batcher.h"
#include "model.h"
#include "statistics.h"

namespace serving {

/// 64 numbers from 0 to 1 between commas or spaces; nothing if that isn't what the text is.
inline std::optional<Pixels> read_pixels(const std::string& text) {
  Pixels out;
  const char *at = text.data(), *end = at + text.size();
  const auto skip = [&] {
    while (at < end && (*at == ' ' || *at == ',' || *at == '\n' || *at == '\r')) ++at;
  };
  for (skip(); at < end; skip()) {
    float value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !(value >= 0 && value <= 1) || out.size() == kPixels) return {};
    out.push_back(value);
    at = after;
  }
  if (out.size() != kPixels) return {};
  return out;
}

inline std::string answer(const Probabilities& p) {
  const auto best = std::max_element(p.begin(), p.end()) - p.begin();
  std::string text = "{\"digit\": " + std::to_string(best) + ", \"probabilities\": [";
  for (std::size_t i = 0; i < p.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(p[i]);
  }
  return text + "]}\n";
}

class Server {
 public:
  /// Threads of `connections` wait for answers; those of the batcher compute.
  Server(const Model& model, const BatcherOptions& options, int connections)
      : batcher_(
            [this, &model](const std::vector<Pixels>& inputs) {
              ++statistics_.batches;
              return model.run(inputs);
            },
            options) {
    http_.new_task_queue = [connections] {
      return new httplib::ThreadPool(std::size_t(connections));
    };
    http_.set_payload_max_length(1 << 16);
    // Else short answers wait for the other side's acknowledgement of what was sent before: 40 ms.
    http_.set_tcp_nodelay(true);
    http_.set_keep_alive_max_count(1 << 30);
    http_.set_read_timeout(2, 0);
    http_.set_keep_alive_timeout(2);
    http_.Post("/predict", [this](const httplib::Request& request, httplib::Response& response) {
      predict(request, response);
    });
    http_.Get("/health", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", "text/plain");
    });
    http_.Get("/statistics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(statistics_.json() + "\n", "application/json");
    });
  }
  ~Server() { stop(); }

  /// Listens on the loopback interface; port 0: any that is free. The port, or 0 if it is taken.
  int start(int port) {
    if (port == 0) {
      port = http_.bind_to_any_port("127.0.0.1");
    } else if (!http_.bind_to_port("127.0.0.1", port)) {
      return 0;
    }
    if (port <= 0) return 0;
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return port;
  }

  /// No new requests; those that were taken are answered.
  void stop() {
    draining_ = true;
    batcher_.stop();
    http_.stop();
    if (thread_.joinable()) thread_.join();
  }

  const Statistics& statistics() const { return statistics_; }

 private:
  void refuse(httplib::Response& response, const char* why) {
    ++statistics_.refused;
    response.status = 503;
    response.set_header("Retry-After", "1");
    response.set_content(why, "text/plain");
  }

  void predict(const httplib::Request& request, httplib::Response& response) {
    const auto begin = Clock::now();
    // Connections that are kept alive would hold up the end.
    if (draining_) response.set_header("Connection", "close");
    std::optional<Pixels> pixels = read_pixels(request.body);
    if (!pixels) {
      ++statistics_.invalid;
      response.status = 400;
      response.set_content("a request is 64 numbers from 0 to 1\n", "text/plain");
      return;
    }
    auto output = batcher_.submit(std::move(*pixels));
    if (!output) return refuse(response, draining_ ? "stopping\n" : "the queue is full\n");
    try {
      response.set_content(answer(output->get()), "application/json");
      statistics_.latencies.add(Clock::now() - begin);
    } catch (const std::exception& e) {
      ++statistics_.failed;
      response.status = 500;
      response.set_content(std::string(e.what()) + "\n", "text/plain");
    }
  }

  Statistics statistics_;
  std::atomic<bool> draining_{false};
  Batcher<Pixels, Probabilities> batcher_;
  httplib::Server http_;
  std::thread thread_;
};

}  // namespace serving

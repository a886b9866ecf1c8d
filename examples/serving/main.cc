// SPDX-License-Identifier: Apache-2.0
// Serves a network that JAX exported: HTTP requests of several threads are computed in batches.
// Without flags it tests itself: a load test over the loopback interface, a queue that is full, and
// SIGTERM in the middle of requests.
#include <common/terminal.h>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "server.h"

using namespace serving;

namespace {

/// What clients met, all together.
struct Met {
  std::atomic<long> right{0}, wrong{0}, refused{0}, without_retry{0}, lost{0};
  Latencies latencies;
};

struct Digit {
  std::string body;
  int label = 0;
};

/// One image per line: 64 pixels from 0 to 16, and a label.
std::vector<Digit> read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw tessera::IoError("can't read " + path);
  std::vector<Digit> out;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::ostringstream body;
    std::string field;
    for (std::size_t i = 0; i < kPixels && std::getline(fields, field, ','); ++i) {
      body << (i > 0 ? "," : "") << std::stof(field) / 16;
    }
    std::getline(fields, field);
    out.push_back({body.str(), std::stoi(field)});
  }
  return out;
}

/// Threads that send one request after the other until `*done`, each over a connection of its own.
std::vector<std::thread> clients(int count, int port, const std::vector<Digit>& digits,
                                 const std::atomic<bool>* done, Met* met) {
  std::vector<std::thread> threads;
  for (int c = 0; c < count; ++c) {
    const auto client = std::make_shared<httplib::Client>("127.0.0.1", port);
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    // Connected one after the other: more than a few at once, and the system has some wait for 1 s.
    client->Get("/health");
    threads.emplace_back([=, &digits] {
      for (std::size_t i = std::size_t(c) * 37; !*done; ++i) {
        const Digit& digit = digits[i % digits.size()];
        const auto begin = Clock::now();
        const auto response = client->Post("/predict", digit.body, "text/plain");
        if (!response) {
          ++met->lost;
          return;
        }
        if (response->status == 503) {
          ++met->refused;
          if (response->get_header_value("Retry-After").empty()) ++met->without_retry;
          // A client that is told to would wait longer.
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          continue;
        }
        met->latencies.add(Clock::now() - begin);
        const std::string expected = "{\"digit\": " + std::to_string(digit.label) + ",";
        const bool right = response->status == 200 && response->body.rfind(expected, 0) == 0;
        ++(right ? met->right : met->wrong);
      }
    });
  }
  return threads;
}

void join(std::vector<std::thread> threads) {
  for (std::thread& t : threads) t.join();
}

void print(const char* title, const Met& met, double seconds) {
  std::printf("%-22s %7.0f answers/s, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms; %ld refused\n", title,
              double(met.latencies.count()) / seconds, met.latencies.percentile(0.5),
              met.latencies.percentile(0.9), met.latencies.percentile(0.99), met.refused.load());
}

bool load_test(const Model& model, const std::vector<Digit>& digits, double seconds) {
  bool right = true;
  for (const bool batching : {false, true}) {
    Server server(model, {.batch = batching ? model.batch() : 1, .queue = 64, .threads = 2}, 16);
    const int port = server.start(0);
    Met met;
    std::atomic<bool> done{false};
    auto threads = clients(12, port, digits, &done, &met);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    done = true;
    join(std::move(threads));
    print(batching ? "12 clients, batches" : "12 clients, one by one", met, seconds);
    const long answered = met.right + met.wrong;
    right = right && met.lost == 0 && answered > 20 && double(met.right) > 0.9 * double(answered);
    if (batching) std::cout << "  " << server.statistics().json() << "\n";
  }
  return right;
}

/// A queue of two, and many more clients: what is too much is refused at once.
bool overload_test(const Model& model, const std::vector<Digit>& digits) {
  Server server(model, {.batch = 1, .queue = 2, .threads = 1}, 24);
  Met met;
  std::atomic<bool> done{false};
  auto threads = clients(20, server.start(0), digits, &done, &met);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  done = true;
  join(std::move(threads));
  print("20 clients, queue of 2", met, 0.5);
  return met.refused > 0 && met.without_retry == 0 && met.lost == 0 && met.right > 0;
}

bool requests_test(const Model& model) {
  Server server(model, {.batch = model.batch()}, 4);
  httplib::Client client("127.0.0.1", server.start(0));
  const auto status = [&](const std::string& body) {
    const auto response = client.Post("/predict", body, "text/plain");
    return response ? response->status : 0;
  };
  const auto health = client.Get("/health");
  return health && health->status == 200 && status("") == 400 && status("1,2,x") == 400 &&
         status(std::string(1 << 17, '0')) == 413 && status("nan") == 400;
}

/// Serves until one of the signals, which all threads have blocked, arrives.
int serve_until(const sigset_t& signals, Server* server) {
  int which = 0;
  sigwait(&signals, &which);
  std::cout << "stopping (" << (which == SIGTERM ? "SIGTERM" : "SIGINT") << ")\n";
  server->stop();
  std::cout << server->statistics().json() << std::endl;
  return which;
}

/// SIGTERM while requests are computed: what was taken is answered.
bool stop_test(const sigset_t& signals, const Model& model, const std::vector<Digit>& digits) {
  Server server(model, {.batch = model.batch(), .queue = 64, .threads = 2}, 16);
  Met met;
  std::atomic<bool> done{false};
  auto threads = clients(8, server.start(0), digits, &done, &met);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(getpid(), SIGTERM);
  });
  const int which = serve_until(signals, &server);
  done = true;
  killer.join();
  join(std::move(threads));
  const long taken = server.statistics().latencies.count();
  // Of each client at most the request is lost that found nobody listening.
  return which == SIGTERM && taken > 0 && met.right + met.wrong == taken && met.lost <= 8;
}

}  // namespace

int main(int argc, char** argv) try {
  const terminal::Flags flags(argc, argv, "Serves a network that reads digits.",
                              {{"port", ""},
                               {"model", TESSERA_EXAMPLE_DIR},
                               {"threads", "2"},
                               {"connections", "16"},
                               {"queue", "64"},
                               {"patience-us", "500"},
                               {"seconds", "1"}});
  // Before there are threads, which inherit it: signals are for sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const Model model(flags.text("model"));
  if (!flags.text("port").empty()) {
    Server server(model,
                  {.batch = model.batch(),
                   .queue = std::size_t(flags.number("queue")),
                   .patience = std::chrono::microseconds(flags.number("patience-us")),
                   .threads = flags.number("threads")},
                  flags.number("connections"));
    const int port = server.start(flags.number("port"));
    if (port == 0) throw tessera::RuntimeError("port " + flags.text("port") + " can't be had");
    std::cout << "listening on http://127.0.0.1:" << port << std::endl;
    serve_until(signals, &server);
    return EXIT_SUCCESS;
  }

  const std::vector<Digit> digits =
      read_digits(std::string(TESSERA_EXAMPLE_DIR) + "/../mlp_training/digits.csv");
  bool right = true;
  const auto check = [&](const char* what, bool holds) {
    if (!holds) std::printf("not as it should be: %s\n", what);
    right = right && holds;
  };
  check("requests", requests_test(model));
  check("load", load_test(model, digits, flags.number("seconds")));
  check("overload", overload_test(model, digits));
  check("stopping", stop_test(signals, model, digits));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return EXIT_FAILURE;
}

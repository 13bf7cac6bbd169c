// A parallel loop over a batch on a fixed set of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace metol {

class Workers {
  public:
    explicit Workers(int threads);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    // Calls body(i) once for each i below count, on all threads, in chunks; returns when all are done. The caller's
    // thread works too. The first exception thrown is rethrown here.
    void run(size_t count, const std::function<void(size_t)>& body);

  private:
    struct Loop;
    struct Team;
    std::unique_ptr<Team> team_;
};

}  // namespace metol

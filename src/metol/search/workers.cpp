#include "search/workers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace metol {

namespace {

// The loops of a search follow each other within this time, or not for long; sleeping and waking take as long as many
// of them.
constexpr std::chrono::microseconds kSpin{100};

// Looks again and again for a short while; false where the condition did not come true.
template <typename Condition>
bool spin_until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= end) {
            return false;
        }
        std::this_thread::yield();  // to whoever has something to do
    }
    return true;
}

}  // namespace

struct Workers::Team {
    std::mutex run_mutex;  // one loop at a time
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable done;
    std::vector<std::thread> threads;
    const std::function<void(size_t)>* body = nullptr;
    size_t count = 0;
    size_t chunk = 1;
    std::atomic<size_t> next{0};
    std::atomic<size_t> generation{0};
    std::atomic<size_t> busy{0};
    std::atomic<bool> is_stopping{false};
    std::exception_ptr failure;

    void work() {
        for (size_t begin = next.fetch_add(chunk); begin < count; begin = next.fetch_add(chunk)) {
            for (size_t i = begin; i < std::min(count, begin + chunk); i++) {
                try {
                    (*body)(i);
                } catch (...) {
                    const std::lock_guard lock(mutex);
                    failure = failure ? failure : std::current_exception();
                }
            }
        }
    }

    void serve() {
        size_t seen = 0;
        const auto is_wanted = [&] { return is_stopping || generation != seen; };
        while (!is_stopping) {
            if (!spin_until(is_wanted)) {
                std::unique_lock lock(mutex);
                wake.wait(lock, is_wanted);
            }
            if (generation == seen) {
                return;
            }
            seen = generation;
            work();
            if (--busy == 0) {
                const std::lock_guard lock(mutex);
                done.notify_one();
            }
        }
    }
};

Workers::Workers(int threads) : team_(std::make_unique<Team>()) {
    for (int i = 1; i < threads; i++) {
        team_->threads.emplace_back([team = team_.get()] { team->serve(); });
    }
}

Workers::~Workers() {
    {
        const std::lock_guard lock(team_->mutex);
        team_->is_stopping = true;
    }
    team_->wake.notify_all();
    for (std::thread& thread : team_->threads) {
        thread.join();
    }
}

void Workers::run(size_t count, const std::function<void(size_t)>& body) {
    if (count <= 1 || team_->threads.empty()) {
        for (size_t i = 0; i < count; i++) {
            body(i);
        }
        return;
    }
    const std::lock_guard one_at_a_time(team_->run_mutex);
    {
        const std::lock_guard lock(team_->mutex);
        team_->body = &body;
        team_->count = count;
        team_->chunk = std::max<size_t>(1, count / (8 * (team_->threads.size() + 1)));
        team_->next = 0;
        team_->failure = nullptr;
        team_->busy = team_->threads.size();
        team_->generation++;
    }
    team_->wake.notify_all();
    team_->work();
    const auto is_done = [&] { return team_->busy == 0; };
    if (!spin_until(is_done)) {
        std::unique_lock lock(team_->mutex);
        team_->done.wait(lock, is_done);
    }
    if (team_->failure) {
        std::rethrow_exception(team_->failure);
    }
}

}  // namespace metol

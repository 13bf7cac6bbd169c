#include "search/workers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
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

// One loop. Whoever comes to it when all is taken finds nothing to do, so that nobody waits for a thread that the
// system has not let run meanwhile: another process that keeps a core busy would stop all others with it.
struct Workers::Loop {
    Loop(const std::function<void(size_t)>& loop_body, size_t loop_count, size_t loop_chunk)
        : body(loop_body), count(loop_count), chunk(loop_chunk) {}

    const std::function<void(size_t)>& body;  // gone when all is done
    const size_t count;
    const size_t chunk;
    std::atomic<size_t> next{0};
    std::atomic<size_t> finished{0};
    std::mutex mutex;
    std::condition_variable done;
    std::exception_ptr failure;

    void work() {
        for (size_t begin = next.fetch_add(chunk); begin < count; begin = next.fetch_add(chunk)) {
            const size_t end = std::min(count, begin + chunk);
            for (size_t i = begin; i < end; i++) {
                try {
                    body(i);
                } catch (...) {
                    const std::lock_guard lock(mutex);
                    failure = failure ? failure : std::current_exception();
                }
            }
            if (finished.fetch_add(end - begin) + (end - begin) == count) {
                const std::lock_guard lock(mutex);
                done.notify_one();
            }
        }
    }

    void wait() {
        const auto is_done = [&] { return finished == count; };
        if (!spin_until(is_done)) {
            std::unique_lock lock(mutex);
            done.wait(lock, is_done);
        }
    }
};

struct Workers::Team {
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::thread> threads;
    std::shared_ptr<Loop> loop;
    std::atomic<size_t> generation{0};
    std::atomic<bool> is_stopping{false};

    void serve() {
        size_t seen = 0;
        const auto is_wanted = [&] { return is_stopping || generation != seen; };
        while (true) {
            if (!spin_until(is_wanted)) {
                std::unique_lock lock(mutex);
                wake.wait(lock, is_wanted);
            }
            if (is_stopping) {
                return;
            }
            newest(seen)->work();
        }
    }

    std::shared_ptr<Loop> newest(size_t& seen) {
        const std::lock_guard lock(mutex);
        seen = generation;
        return loop;
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
    const size_t chunk = std::max<size_t>(1, count / (8 * (team_->threads.size() + 1)));
    const auto loop = std::make_shared<Loop>(body, count, chunk);
    {
        const std::lock_guard lock(team_->mutex);
        team_->loop = loop;
        team_->generation++;
    }
    team_->wake.notify_all();
    loop->work();
    loop->wait();
    if (loop->failure) {
        std::rethrow_exception(loop->failure);
    }
}

}  // namespace metol

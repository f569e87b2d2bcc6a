// Fibers: hundreds of threads of execution within one thread, which give way to each other only
// where they wait for one another. To ThreadSanitizer each is a thread of its own, ordered by
// atomics alone; to AddressSanitizer each has its stack. What runs in a fiber must not throw, nor
// run fibers.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

namespace zplan::testing_support {

// Those of one thread. They are kept from one run to the next.
class Fibers {
 public:
  // Runs body(0) .. body(n - 1), each in a fiber, until all have ended. Where all that are left
  // wait for each other, the process ends.
  template <typename Body>
  static void run(unsigned n, const Body& body) {
    Fibers& all = of_thread();
    all.body_ = &body;
    all.call_ = [](const void* what, unsigned index) { (*static_cast<const Body*>(what))(index); };
    all.run_all(n);
  }

  // Called in a fiber: its number.
  static unsigned self() { return current_.load(std::memory_order_relaxed); }
  // Called in a fiber: lets the others run until the word, which is theirs to change, has another
  // value.
  static void wait_while(const std::atomic<unsigned>& word, unsigned value) {
    of_thread().leave(&word, value);
    word.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kStack = std::size_t{128} * 1024;  // bytes
  static constexpr unsigned kNeighbours = 32;                     // the lanes of a warp

  // What fibers and who runs them both touch is atomic.
  struct Fiber {
    std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
    void* context = nullptr;  // where it goes on
    void* runner = nullptr;   // where who has entered it goes on
    std::atomic<bool> is_at_work{false};
    std::atomic<const std::atomic<unsigned>*> awaited{nullptr};  // that it has another value than
    std::atomic<unsigned> value{0};
    void* race_state = nullptr;  // ThreadSanitizer's
    void* fake_stack = nullptr;  // AddressSanitizer's

    bool can_go_on() const;
  };

  static Fibers& of_thread();

  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void add();
  void run_all(unsigned n);
  // Each of these once, as far as it goes; whether one went at all.
  bool advance(unsigned begin, unsigned end, bool upwards);
  void enter(unsigned index);
  void leave(const std::atomic<unsigned>* awaited, unsigned value);
  void arrive(void* fake_stack);
  [[noreturn]] void work(void* runner);

  static inline constinit thread_local std::atomic<unsigned> current_{0};

  const void* body_ = nullptr;
  void (*call_)(const void* body, unsigned index) = nullptr;
  std::deque<Fiber> all_;
  std::vector<Fiber*> fibers_;  // the same, found quickly
  char begin_ = 0, end_ = 0;  // what orders a run's fibers after who begins it, and before its end
  // Of who runs them.
  void* race_state_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_ = nullptr;
  std::size_t stack_size_ = 0;
};

}  // namespace zplan::testing_support

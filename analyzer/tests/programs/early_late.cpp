// Allocates as early and as late as a process can.
// usage: early_late return|exit|quick_exit|_exit|thread-exit|main-leaves|abandoned|abort
// Its last line says how often it called realloc, where that can be known.
// Writes lines to stdout with write(2) so that the order of the end is seen.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
#include "marks.h"

static void say(const char *what) {
    std::string line = std::string(what) + "\n"; // allocates from 16 letters on
    if (write(1, line.data(), line.size()) < 0) _Exit(99);
}

static std::atomic<int> reallocations;

static void churn() {
    reallocations += 50;
    for (int i = 0; i < 50; i++) {
        void *volatile p = malloc(100 + static_cast<size_t>(i));
        p = realloc(p, 300);
        free(p);
    }
}

static void say_how_often() {
    char line[40];
    const int length = snprintf(line, sizeof line, "{\"reallocations\":%d}\n", reallocations.load());
    if (write(1, line, static_cast<size_t>(length)) < 0) _Exit(99);
}

static const char *how = "return";

// Before main: the earliest constructor, then the usual ones.
static void *earliest;
__attribute__((constructor(101))) static void before_everything() {
    earliest = malloc(4001);
    churn();
}
__attribute__((destructor(101))) static void after_everything() {
    churn();
    free(earliest);
    say("the very last destructor");
    if (strcmp(how, "abandoned")) say_how_often();
}

struct Global {
    std::vector<int> numbers = std::vector<int>(500, 1);
    ~Global() {
        churn();
        say("a static object's destructor");
    }
};
static Global global;

// A thread's end: C++ objects first, then pthread keys, which may be set again.
struct OnThread {
    std::string text = std::string(200, 'x');
    ~OnThread() {
        churn();
        text += std::string(2000, 'y');
    }
};
static thread_local OnThread on_thread;
static pthread_key_t key, second_key;

static void at_key(void *value) {
    churn();
    const long left = reinterpret_cast<long>(*static_cast<void **>(value));
    free(value);
    if (left == 0) return;
    void **again = static_cast<void **>(malloc(sizeof(void *)));
    *again = reinterpret_cast<void *>(left - 1);
    pthread_setspecific(left % 2 ? second_key : key, again);
}

static void on_thread_end(int rounds) {
    if (on_thread.text.size() < 200) abort();
    void **value = static_cast<void **>(malloc(sizeof(void *)));
    *value = reinterpret_cast<void *>(static_cast<long>(rounds));
    pthread_setspecific(key, value);
}

static void at_exit_handler() {
    churn();
    say("a handler of atexit");
}
static void at_quick_exit_handler() {
    churn();
    say("a handler of at_quick_exit");
}
static void last_quick_exit_handler() {
    std::string(3000, 'q');
    churn();
    say_how_often();
}

// Still working when main has returned; only the process's end stops it.
static void abandon() {
    static pthread_barrier_t running;
    pthread_barrier_init(&running, nullptr, 4);
    for (int i = 0; i < 3; i++)
        std::thread([] {
            churn();
            pthread_barrier_wait(&running);
            for (;;) churn();
        }).detach();
    pthread_barrier_wait(&running);
}

// The process ends when the last of these does, with the status 0.
static void leave_to_others() {
    for (int i = 0; i < 4; i++)
        std::thread([i] {
            for (int j = 0; j < 300 + 100 * i; j++) churn();
            on_thread_end(2);
        }).detach();
    pthread_exit(nullptr);
}

static void finish() {
    if (!strcmp(how, "exit")) exit(4);
    if (!strcmp(how, "quick_exit")) quick_exit(5);
    if (!strcmp(how, "_exit")) say_how_often(), _exit(6);
    if (!strcmp(how, "abort")) say_how_often(), abort();
    if (!strcmp(how, "main-leaves")) leave_to_others();
    if (!strcmp(how, "abandoned")) abandon();
    if (!strcmp(how, "thread-exit")) {
        std::thread([] {
            on_thread_end(1);
            exit(7);
        }).detach();
        for (;;) pause();
    }
}

int main(int argc, char **argv) {
    pthread_key_create(&key, at_key);
    pthread_key_create(&second_key, at_key);
    atexit(at_exit_handler);
    at_quick_exit(last_quick_exit_handler);
    at_quick_exit(at_quick_exit_handler);
    on_thread_end(1);
    for (int i = 0; i < 20; i++) std::thread([] { on_thread_end(3); }).join();
    say("main is done now, 20 threads came and went");
    mark("main done");
    if (argc > 1) how = argv[1];
    finish();
    return 3;
}

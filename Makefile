# norma: `make` builds ./run, `make test` checks it, `make help` lists the rest.
#
# For several machines:              make MPI=1
# Other compilers, machines, flags:  make CC=clang ARCH=x86-64-v3 CFLAGS=-g
# Cross-compilation:                 make CC=aarch64-linux-gnu-gcc ARCH=cortex-a76
# Warnings as errors:                make WERROR=1
# Packagers' flags:                  CPPFLAGS, CFLAGS, LDFLAGS; DESTDIR, PREFIX
# Show full commands:                make V=1
#
# Compiles on all processors unless -j is given.

CC     ?= cc
ARCH   ?= native
PREFIX ?= /usr/local
CFLAGS ?= -O3

Q := $(if $(V),,@)
# -Wno-psabi: vectors wider than the machine's are split; only inlined functions have them as parameters.
# -Wno-pass-failed: clang warns if the optimization level is too low for `omp simd`.
# -Wno-enum-float-conversion: integer constants are enumerators; all of them are exact in double.
# -Wswitch-enum: warns about every switch that lacks a new kind of norm or type of weights.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-psabi -Wno-pass-failed -Wswitch-enum \
    -Wno-enum-float-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla $(if $(WERROR),-Werror)
MACHINE  := $(if $(filter aarch64% arm64%,$(shell $(CC) -dumpmachine)),-mcpu=$(ARCH),-march=$(ARCH))
FLAGS     = -std=gnu11 -D_GNU_SOURCE -I. $(WARNINGS) $(MACHINE) -fopenmp -fno-math-errno -ffp-contract=fast $(CPPFLAGS) $(CFLAGS)
LIBS     := -lm

# MPI=1: ranks share a run (docs/distributed.md). MPI's compiler wrapper calls $(CC).
ifdef MPI
MPICC ?= mpicc
override CC := env OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC)
FLAGS += -DNORMA_MPI
VARIANT ?= mpi
# Tests start more ranks than there are cores, in a container, as root.
MPIRUN ?= mpirun --bind-to none --oversubscribe
TEST_RANKS ?= 2 3 4 5 7
export MPIRUN
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export OMPI_MCA_btl_vader_single_copy_mechanism := none
endif

# Each variant, a set of flags, has its own build folder.
VARIANT ?= release
BUILD   := build/$(VARIANT)
BINARY  := $(BUILD)/run

# The transformer is in the top-level folder, everything else in subfolders (docs/architecture.md).
FOLDERS := base kernels text formats lab cluster modes
SOURCES := $(filter-out $(if $(MPI),,base/ranks.c),$(wildcard *.c $(FOLDERS:%=%/*.c)))
TESTS   := $(filter-out tests/core.c tests/course.c tests/wasm.c tests/fuzz/% $(if $(MPI),,tests/modes/test_ranks.c),$(wildcard tests/*.c tests/*/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/lab/page_html.o
LIBRARY := $(filter-out $(BUILD)/run.o,$(OBJECTS))
# Readers of files and texts, and the sampler. The suite `growth` compiles them again, to count their steps (tests/support/steps.c).
READERS := $(filter $(addprefix $(BUILD)/,base/% text/% formats/% tokenizer.o sampler.o),$(LIBRARY))
COUNTED := $(READERS:$(BUILD)/%=$(BUILD)/counted/%)

# SUITES: the suites to build and run; suite X is in tests/.../test_X.c and tests/X_*.c. Unset: all suites. TEST: the only test to run.
CHOSEN := $(if $(SUITES),$(filter $(foreach s,$(SUITES),%/test_$(s).c tests/$(s)_%.c),$(TESTS)),$(TESTS))
ifneq ($(filter growth,$(or $(SUITES),growth)),)
GROWTH := $(BUILD)/tests/growth
endif
ifdef MPI
CHOSEN += tests/test_sequences.c
endif
TESTED := $(patsubst %.c,$(BUILD)/%.o,$(sort $(filter tests/support/%,$(TESTS)) $(CHOSEN)))
RUNNER := $(BUILD)/tests/$(if $(SUITES),suites-$(firstword $(shell echo '$(SUITES)' | cksum)),all)

# One job per processor, unless -j is given. The output of jobs is not interleaved if make supports that.
JOBS     := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
PARALLEL  = $(MAKE) --no-print-directory \
    $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target))

.PHONY: all objects run test tests documents coverage mutate lint sizes format sanitize valgrind tsan fuzz fuzz-coverage install uninstall book clean help FORCE
all:
	+@$(PARALLEL) $(BINARY)
	$(if $(filter release mpi,$(VARIANT)),@cmp -s $(BINARY) run || cp $(BINARY) run)

objects: $(OBJECTS)

run: all ## build ./run and start it (with models/stories.gguf, if present)
	@./run

$(BINARY): $(OBJECTS)
	@echo '  LD $@'
	$(Q)$(CC) $(FLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Functions that tests/support/wrap.c and oracle.c (guesser_guess) replace in the tests and in the program under test.
WRAPPED := mmap munmap malloc calloc realloc aligned_alloc strdup strndup realpath fopen fdopen asprintf nanoseconds lost_processors limits_of \
    guesser_guess session_open family_find family_of_gguf $(if $(MPI),MPI_Waitall MPI_Recv)
PROGRAM := $(BUILD)/tests/run
$(RUNNER): $(TESTED) $(LIBRARY)
$(BUILD)/tests/growth: $(filter %/test_growth.o $(BUILD)/tests/support/%,$(TESTED)) $(COUNTED) $(filter-out $(READERS),$(LIBRARY))
$(PROGRAM): $(OBJECTS) $(patsubst %,$(BUILD)/tests/support/%.o,wrap oracle hashmodel)
$(RUNNER) $(GROWTH) $(PROGRAM):
	@echo '  LD $@'
	$(Q)$(CC) $(FLAGS) $(LDFLAGS) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(LIBS)

# Rebuilds everything if the compiler or the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(dir $(OBJECTS) $(COUNTED) $(TESTS:%=$(BUILD)/%))
	@echo '$(CC) $(FLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS)' > $@

# EXTRA: additional flags of some objects. -O3 speeds up no loop of a loader, and -O2 compiles faster; -O1 takes two thirds
# of that, and is enough for modes, for the largest files of formats/, and for tests, which run once. Tests are compiled
# without --coverage: it makes fork and exec write files, which some tests forbid.
O1 := $(if $(filter -O3,$(CFLAGS)),-O1)
O2 := $(if $(filter -O3,$(CFLAGS)),-O2)
$(addprefix $(BUILD)/,base/%.o cluster/%.o formats/%.o text/%.o): EXTRA = $(O2)
$(addprefix $(BUILD)/,modes/%.o $(patsubst %,formats/%.o,jinja gguf_write folder reader)): EXTRA = $(O1)
$(BUILD)/kernels/quant.o: EXTRA = -ffp-contract=off
$(BUILD)/lab/machine.o: EXTRA = -DNORMA_FLAGS='"$(MACHINE) $(CFLAGS)"'
$(BUILD)/tests/%.o: EXTRA = $(O1) -fno-tree-vectorize
$(BUILD)/tests/%.o: WITHOUT = --coverage
$(BUILD)/counted/%.o: EXTRA = $(O1) -fsanitize-coverage=trace-pc
define COMPILE
	@echo '  CC $<'
	$(Q)$(CC) $(filter-out $(WITHOUT),$(FLAGS)) $(EXTRA) -MMD -MP -c -o $@ $<
endef
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(COMPILE)
$(BUILD)/counted/%.o: %.c $(BUILD)/flags
	$(COMPILE)
# lab/page.html as a C string.
$(BUILD)/lab/page_html.c: lab/page.html $(BUILD)/flags
	@{ echo 'extern const char PAGE_HTML[];'; echo 'const char PAGE_HTML[] ='; \
	    sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' lab/page.html; echo ';'; } > $@
$(BUILD)/lab/page_html.o: $(BUILD)/lab/page_html.c
	$(Q)$(CC) $(FLAGS) -c -o $@ $<
-include $(OBJECTS:.o=.d) $(COUNTED:.o=.d) $(TESTS:%.c=$(BUILD)/%.d)

# With more threads than free processors, spinning takes minutes. These settings limit it (libgomp) or disable it (libomp).
WAITING := OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=300
test: tests ## build and run all tests in C (SUITES='json bpe': only these suites; TEST=name: only this test; V=1: also the slowest)
	@$(WAITING) $(if $(V),NORMA_SLOWEST=1) $(if $(TEST),NORMA_TEST='$(TEST)') NORMA_RUN=./$(PROGRAM) $(TEST_WRAPPER) $(RUNNER) $(if $(SUITES),$(SUITES))
	$(if $(MPI),@export $(WAITING); for n in $(TEST_RANKS); do \
	    echo "$$n ranks:"; $(MPIRUN) -n $$n $(RUNNER) sequences || exit 1; done)
documents: ## only the suites that compare documents with what they describe
	@$(MAKE) --no-print-directory test SUITES='textbook batching'
tests:
	+@$(PARALLEL) $(RUNNER) $(GROWTH) $(PROGRAM)

SANITIZERS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: ## the same tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory test VARIANT=sanitize CFLAGS='$(SANITIZERS)'

# With valgrind's default of 60 instructions per block, vector code ends with "VEX temporary storage exhausted".
valgrind: ## the same tests under valgrind (x86-64-v3: valgrind does not support AVX-512)
	@$(MAKE) --no-print-directory test VARIANT=valgrind ARCH=x86-64-v3 CFLAGS='-O2 -g' \
	    NORMA_FAST=1 TEST_WRAPPER='valgrind -q --trace-children=yes --trace-children-skip="*/mv" --vex-guest-max-insns=25 --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite'

# LLVM's libarcher informs ThreadSanitizer about OpenMP's synchronization.
TSAN_ENVIRONMENT = OMP_NUM_THREADS=3 NORMA_FAST=1 TSAN_OPTIONS='ignore_noninstrumented_modules=1 history_size=5 halt_on_error=1' \
    OMP_TOOL_LIBRARIES=$(firstword $(wildcard /usr/lib/llvm-*/lib/libarcher.so))
tsan: ## ThreadSanitizer over the forward pass (needs clang and libomp-dev)
	@$(TSAN_ENVIRONMENT) $(MAKE) --no-print-directory test VARIANT=tsan CC=clang ARCH=x86-64-v3 CFLAGS='-O1 -g -fsanitize=thread' \
	    SUITES='attention matmul invariance sequences golden team'

coverage: ## line and branch coverage of the tests (gcc); COVERAGE='98 88': fail below these percentages
	@find build/coverage -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory test VARIANT=coverage CC=gcc CFLAGS='-O1 --coverage'
	@python3 scripts/developer/coverage.py build/coverage $(COVERAGE)

mutate: ## mutation test of FILE='a.c b.c', or of the branch's changes (gcc)
	@python3 scripts/developer/mutate.py $(FILE)

# Corpora are in build/fuzz/NAME and start from tests/fuzz/seeds/NAME. SEEDS: additional seed files.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := fuzz-model fuzz-folder fuzz-tokenizer fuzz-bpe fuzz-json fuzz-jinja
fuzz: ## libFuzzer on all readers of files and texts, FUZZ_SECONDS each (needs clang)
	@$(MAKE) --no-print-directory fuzzers VARIANT=fuzz CC=clang CFLAGS='$(SANITIZERS) -DNO_UNROLL=1 -fsanitize=fuzzer-no-link'

.PHONY: fuzzers
fuzzers:
	+@$(PARALLEL) $(FUZZ_TARGETS)

fuzz-coverage: ## line coverage of 10 s of each fuzzer from its seeds; fails below 75 %
	@rm -rf $(FUZZ_TARGETS:fuzz-%=build/reach/%)
	@$(MAKE) --no-print-directory $(FUZZ_TARGETS) VARIANT=reach CC=clang FUZZ_SECONDS=10 \
	    CFLAGS='-O1 -g -fprofile-instr-generate -fcoverage-mapping -fsanitize=fuzzer-no-link'
	@llvm-profdata merge -o build/reach/all.profdata $(FUZZ_TARGETS:%=build/reach/%.profraw)
	@llvm-cov export --summary-only --instr-profile build/reach/all.profdata $(FUZZ_TARGETS:%=--object build/reach/%) | \
	    python3 scripts/developer/coverage.py --llvm 75

$(BUILD)/dictionary: $(SOURCES) scripts/developer/fuzz_seeds.py
	@python3 scripts/developer/fuzz_seeds.py --dictionary $@
$(FUZZ_TARGETS): fuzz-%: $(LIBRARY) tests/fuzz/%.c tests/fuzz/use.c $(BUILD)/dictionary
	@mkdir -p $(BUILD)/$*
	$(Q)$(CC) $(FLAGS) -fsanitize=fuzzer -o $(BUILD)/fuzz-$* tests/fuzz/$*.c tests/fuzz/use.c $(LIBRARY) $(LIBS)
	LLVM_PROFILE_FILE=$(BUILD)/fuzz-$*.profraw $(BUILD)/fuzz-$* -max_total_time=$(FUZZ_SECONDS) -max_len=65536 \
	    -rss_limit_mb=2048 -timeout=10 -close_fd_mask=2 -verbosity=0 -print_final_stats=1 -dict=$(BUILD)/dictionary \
	    -artifact_prefix=$(BUILD)/ $(BUILD)/$* tests/fuzz/seeds/$* $(SEEDS)

ALL := $(SOURCES) web/page.c web/depth.c tests/wasm.c $(TESTS) base/ranks.c tests/modes/test_ranks.c $(wildcard *.h $(FOLDERS:%=%/*.h) tests/*/*.h tests/fuzz/*.c)
lint: ## house.py (floors, sizes, names), clang-format (check), clang-tidy, cppcheck
	@python3 scripts/developer/house_test.py
	@python3 scripts/developer/house.py
	@python3 scripts/developer/phrases.py --test && python3 scripts/developer/phrases.py
	@python3 scripts/developer/draw_architecture.py --check
	@python3 scripts/measure/remeasure.py --check
	@clang-format --dry-run --Werror $(ALL)
	@printf '%s\n' $(SOURCES) $(TESTS) | xargs -n 6 -P $(JOBS) sh -c \
	    'clang-tidy --quiet "$$@" -- -std=gnu11 -D_GNU_SOURCE -I. -march=x86-64-v3 2>&1' - | { ! grep -E 'warning:|error:'; }
	@cppcheck -j $(JOBS) --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --suppress=missingIncludeSystem \
	    --error-exitcode=1 -D__x86_64__ -D__AVX512F__ -D__AVX512BW__ -I. $(SOURCES) $(TESTS)

sizes: ## the words of C by place
	@python3 scripts/developer/house.py --sizes

format: ## clang-format all sources
	clang-format -i $(ALL)

# Paths of the user reach the recipes in the environment, and are quoted: they may have spaces, quotes or *.
export PREFIX DESTDIR
INSTALLED_TO = set -eu; umask 022; root="$${DESTDIR-}$$PREFIX"; \
    if [ "$$(printf %s "$$root" | wc -l)" -ne 0 ]; then echo 'PREFIX and DESTDIR must not have a newline' >&2; exit 1; fi; \
    share="$$root/share"; program="$$root/bin/norma"; manual="$$share/man/man1/norma.1"; \
    bash="$$share/bash-completion/completions/norma"; zsh="$$share/zsh/site-functions/_norma"
BUNDLED := $(notdir $(wildcard models/*.gguf))

install: all ## copy to $(DESTDIR)$(PREFIX) as `norma`, with models, manual page and completions
	@$(INSTALLED_TO); \
	for file in "$$program" "$$manual" "$$bash" "$$zsh" "$$share/norma/model"; do mkdir -p "$${file%/*}"; done; \
	install -m 755 $(BINARY) "$$program"; \
	for model in $(BUNDLED); do install -m 644 "models/$$model" "$$share/norma/$$model"; done; \
	version=$$(sed -n 's/^#define NORMA_VERSION "\(.*\)"/\1/p' model.h); \
	awk -v version="$$version" -f scripts/manual.awk docs/options.md > "$$manual"; \
	awk -f scripts/completions.awk -v shell=bash docs/options.md > "$$bash"; \
	awk -f scripts/completions.awk -v shell=zsh docs/options.md > "$$zsh"

uninstall: ## remove the installed files
	@$(INSTALLED_TO); \
	rm -f "$$program" "$$manual" "$$bash" "$$zsh"; \
	for model in $(BUNDLED); do rm -f "$$share/norma/$$model"; done; \
	[ ! -d "$$share/norma" ] || rmdir "$$share/norma"

book: all ## make the site book/ from the chapters (needs python3-venv, fetches web/requirements.txt; BASE=URL of the sources)
	@python3 scripts/book/book.py $(if $(BASE),--base '$(BASE)')

clean: ## remove build products
	rm -rf build book run

help: ## print this list
	@echo 'make [target] [CC=gcc] [ARCH=native] [CFLAGS=-O3] [PREFIX=/usr/local]'
	@echo '  all             build ./run (the default)'
	@sed -n 's/^\([a-z-]*\):.*## /  \1 /p' Makefile | awk '{t=$$1; $$1=""; printf "  %-15s%s\n", t, $$0}'

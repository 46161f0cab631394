package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// builtC is the folder to remove when all tests are done.
var builtC string

// buildC compiles the C tests of ctest/ once; cgo is refused in a _test.go file, and what they test
// is not part of the Go interface.
var buildC = sync.OnceValues(func() (string, error) {
	// The go command records which files a test reads, so it runs a changed C test again instead of using
	// the cached result.
	sources, err := filepath.Glob("ctest/*.[ch]")
	if err != nil {
		return "", err
	}
	for _, source := range sources {
		if _, err := os.ReadFile(source); err != nil {
			return "", err
		}
	}
	build, err := os.MkdirTemp("", "headrace-ctest-*")
	if err != nil {
		return "", err
	}
	builtC = build
	make := exec.Command("make", "-C", "ctest", "-j", "2", "BUILD="+build, "CFLAGS=-O1 -g", "all")
	output, err := make.CombinedOutput()
	if err != nil {
		return string(output), err
	}
	return build, nil
})

// times is a number of random cases, multiplied by the variable TIMES if it is set (4 in tools/hostile.sh).
func times(cases int) string {
	if more, err := strconv.Atoi(os.Getenv("TIMES")); err == nil {
		cases *= more
	}
	return strconv.Itoa(cases)
}

// runC runs one C test, through an emulator if HEADRACE_CTEST_RUN names one with its arguments.
func runC(t *testing.T, name string, arguments ...string) {
	if testing.Short() {
		t.Skip("make asan runs it, with sanitizers")
	}
	build, err := buildC()
	require.NoError(t, err, build)
	command := append(strings.Fields(os.Getenv("HEADRACE_CTEST_RUN")), filepath.Join(build, name))
	command = append(command, arguments...)
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	require.NoError(t, err, string(output))
	t.Log(string(output))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if builtC != "" {
		_ = os.RemoveAll(builtC)
	}
	os.Exit(code)
}

func TestAWindowEqualsThatWindowOfTheWholeImageForEverySamplingAndCoding(t *testing.T) {
	runC(t, "windows", "-n", times(500))
}

func TestEveryKindOfBadFileGetsItsVerdict(t *testing.T) { runC(t, "verdicts") }

func TestAJPEGThatCostsTooMuchIsRefusedFromItsHeadersByEveryCall(t *testing.T) { runC(t, "costs") }

func TestAFileConvertedToBaselineKeepsItsPixelsAndAReencodedOneIsGood(t *testing.T) {
	runC(t, "recode", "-n", times(750))
}

func TestADamagedImageGetsTheSameVerdictFromANewAndAnOldContext(t *testing.T) {
	runC(t, "mutate", "-n", times(2500), "ctest/testdata")
	runC(t, "mutate", "-n", times(5000))
}

func TestWindowsWithAndWithoutSeekPointsHaveLibjpegsPixelsForEverySampling(t *testing.T) {
	for _, simd := range []string{"", "scalar"} {
		t.Setenv("HEADRACE_SIMD", simd)
		runC(t, "seek_windows", "-n", times(250))
	}
}

func TestCoefficientsOfAWindowAreThoseOfJpegReadCoefficients(t *testing.T) {
	for _, simd := range []string{"", "scalar"} {
		t.Setenv("HEADRACE_SIMD", simd)
		runC(t, "seek_coefficients")
	}
}

func TestHuffmanTablesMatchTheirCodesAndSkippingMCUsEndsWhereDecodingDoes(t *testing.T) {
	for _, simd := range []string{"", "scalar"} {
		t.Setenv("HEADRACE_SIMD", simd)
		runC(t, "tables", "-n", "500")
	}
}

func TestSeekPointsAreUnpackedAsTheyWerePackedAndImpossibleRecordsAreRefused(t *testing.T) {
	runC(t, "seek_records")
}

func TestIrregularEntropyDataGetsLibjpegsVerdictAndPixelsAndNoSeekPoints(t *testing.T) {
	runC(t, "irregular")
}

func TestASeedGivesTheSamePixelsOnEveryMachine(t *testing.T) {
	for _, simd := range []string{"", "avx2", "scalar"} {
		t.Setenv("HEADRACE_SIMD", simd)
		runC(t, "golden")
	}
}

func TestEachViewOfASampleHasTheBytesThatItHasAlone(t *testing.T) { runC(t, "views", "-n", times(250)) }

func TestALibjpegThatTheHookDoesNotFitDecodesAloneAndIsReported(t *testing.T) {
	runC(t, "unfit")
	runC(t, "unfit", "planes")
}

func TestKernelsUndoPNGFiltersAsThePlainLoopsDo(t *testing.T) { runC(t, "filters") }

func TestPixelsMadeOfAnyCoefficientsAndColoursEqualLibjpegs(t *testing.T) { runC(t, "planes") }

func TestHostileSeekPointsDoNoHarmAndDoNotKeepAGoodFileFromDecoding(t *testing.T) {
	runC(t, "seek_fuzz", "-n", times(12500))
}

func TestJPEGsAndPNGsOfValidSyntaxGetOneVerdictAndLibjpegsPixels(t *testing.T) {
	runC(t, "structured", "-n", times(5000))
}

func TestRecipesOfAnyParametersStayInsideTheirImageAndAreTheSameInEveryLayout(t *testing.T) {
	runC(t, "recipes")
}

func TestAMixedSampleIsTheMixOfTwoFinishedSamplesAndAnUnmixedOneIsUnchanged(t *testing.T) {
	for _, simd := range []string{"", "scalar"} {
		t.Setenv("HEADRACE_SIMD", simd)
		runC(t, "mixing")
	}
}

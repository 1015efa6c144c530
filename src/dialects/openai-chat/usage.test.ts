import { describe, expect, test } from 'bun:test';
import { mergeUsage, readMediaUsage, readUsage, usageIn, writeUsage } from './usage.ts';

const usage = (
  inputTokens: number,
  cacheReadTokens: number,
  cacheWriteTokens: number,
  outputTokens: number,
  reasoningTokens = 0,
) => ({ inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens, reasoningTokens });

const report = (prompt: unknown, completion: unknown, extraFields: object = {}) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  ...extraFields,
});
const cached = (tokens: unknown) => ({ prompt_tokens_details: { cached_tokens: tokens } });
const reasoned = (tokens: unknown) => ({ completion_tokens_details: { reasoning_tokens: tokens } });

// The recordings cover plain counts, cached tokens in the details, reasoning, and totals that
// exceed the sum.
describe('readUsage', () => {
  const cases: Record<string, [object, ReturnType<typeof usage>]> = {
    'reads counts without a total': [report(10, 5), usage(10, 0, 0, 5)],
    'subtracts cache writes from the prompt': [
      report(100, 5, { prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 } }),
      usage(10, 60, 30, 5),
    ],
    'ignores a smaller total': [report(10, 5, { total_tokens: 3 }), usage(10, 0, 0, 5)],
    'limits cached tokens to the prompt tokens': [report(10, 5, cached(90)), usage(0, 10, 0, 5)],
    'counts no output for a total that adds the cached tokens to the prompt': [
      report(10, 5, { ...cached(90), total_tokens: 105 }),
      usage(10, 90, 0, 5),
    ],
    'counts a surplus that equals the reasoning as output, even if it is large': [
      report(10, 5, { ...cached(90), ...reasoned(9_000), total_tokens: 9_015 }),
      usage(0, 10, 0, 9_005, 9_000),
    ],
    'counts a small surplus as output': [
      report(10, 5, { total_tokens: 4_111 }),
      usage(10, 0, 0, 4_101),
    ],
    'ignores a surplus that is too large to be hidden reasoning': [
      report(10, 5, { total_tokens: 4_112 }),
      usage(10, 0, 0, 5),
    ],
    'derives a missing part from the total': [
      { completion_tokens: 5, total_tokens: 15 },
      usage(10, 0, 0, 5),
    ],
    'reads a report of only the output': [{ completion_tokens: 5 }, usage(0, 0, 0, 5)],
    'reads zeros': [report(0, 0, { total_tokens: 0 }), usage(0, 0, 0, 0)],
    "reads DeepSeek's name for cache hits": [
      report(100, 5, { prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 }),
      usage(36, 64, 0, 5),
    ],
    "reads Together's name for cache hits": [
      report(100, 5, { cached_tokens: 64 }),
      usage(36, 64, 0, 5),
    ],
    "reads Anthropic's names within the prompt": [
      report(100, 5, { cache_read_input_tokens: 60, cache_creation_input_tokens: 30 }),
      usage(10, 60, 30, 5),
    ],
    "reads Anthropic's names outside a smaller prompt": [
      report(10, 5, { cache_read_input_tokens: 90, cache_creation_input_tokens: 30 }),
      usage(10, 90, 30, 5),
    ],
    "reads Alibaba's name for cache writes in the details": [
      report(200, 75, {
        prompt_tokens_details: { cached_tokens: 120, cache_creation_input_tokens: 50 },
      }),
      usage(30, 120, 50, 75),
    ],
    'limits cache reads and writes to the prompt together': [
      report(10, 5, { prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 8 } }),
      usage(0, 8, 2, 5),
    ],
    'reads a prompt without output': [{ prompt_tokens: 8, total_tokens: 8 }, usage(8, 0, 0, 0)],
  };
  test.each(Object.entries(cases))('%s', (_, [raw, expected]) => {
    expect(readUsage(raw)).toEqual(expected);
  });
});

describe('readUsage', () => {
  const usageWith = (audio: unknown, extraFields: object = {}) =>
    readUsage(report(100, 5, { prompt_tokens_details: { audio_tokens: audio, ...extraFields } }));
  const split = (inputTokens: number, inputAudioTokens: number, cacheReadTokens: number) => ({
    ...usage(inputTokens, cacheReadTokens, 0, 5),
    inputAudioTokens,
  });
  const inCache = (audio: unknown) => ({
    cached_tokens: 60,
    cached_tokens_details: { audio_tokens: audio },
  });

  test('separates audio from text if nothing is cached', () => {
    expect(usageWith(70)).toEqual(split(30, 70, 0));
    expect(usageWith(100)).toEqual(split(0, 100, 0));
  });

  test('separates audio from text if some audio, only text, or an unknown part is cached', () => {
    expect(usageWith(70, inCache(50))).toEqual(split(20, 20, 60));
    expect(usageWith(30, inCache(0))).toEqual(split(10, 30, 60));
    expect(usageWith(30, { cached_tokens: 60 })).toEqual(split(10, 30, 60));
    expect(usageWith(70, { cached_tokens: 60 })).toEqual(split(0, 40, 60));
  });

  test.each([101, -1, 1.5, '70', null, {}])(
    'ignores %j audio tokens but keeps the other counts',
    (audio) => {
      expect(usageWith(audio)).toEqual(usage(100, 0, 0, 5));
    },
  );

  test.each([71, 61, -1, '50'])(
    'ignores a count of %j cached audio tokens if there are 70 audio tokens',
    (audio) => {
      expect(usageWith(70, inCache(audio))).toEqual(usage(40, 60, 0, 5));
    },
  );
});

describe('readUsage', () => {
  const cases: Record<string, unknown> = {
    nothing: undefined,
    null: null,
    'a list': [1],
    'only a total': { total_tokens: 5 },
    'a negative count': report(-1, 5),
    'a fraction': report(10, 5.5),
    'a string': report(10, '5'),
    'an absurd count': report(10, 1_000_000_001),
    'an absurd total': report(10, 5, { total_tokens: 1e12 }),
    'a negative detail': report(10, 5, cached(-3)),
    'a detail that is a string': report(10, 5, reasoned('4')),
  };
  test.each(Object.entries(cases))('returns undefined for %s', (_, raw) => {
    expect(readUsage(raw)).toBeUndefined();
  });
});

test("usageIn finds usage in Groq's own fields and counts it once", () => {
  const own = { id: 'req_1', usage: report(10, 5) };
  expect(usageIn({ x_groq: own })).toEqual(usage(10, 0, 0, 5));
  expect(usageIn({ x_groq: own, usage: report(10, 6) })).toEqual(usage(10, 0, 0, 6));
  expect(usageIn({ usage: null })).toBeUndefined();
});

test('usageIn finds usage in the final choice, where Moonshot sends it', () => {
  const ending = { index: 0, delta: {}, finish_reason: 'stop', usage: report(10, 5, cached(4)) };
  expect(usageIn({ choices: [ending] })).toEqual(usage(6, 4, 0, 5));
  expect(usageIn({ choices: [ending], usage: report(10, 6) })).toEqual(usage(10, 0, 0, 6));
  expect(usageIn({ choices: [null] })).toBeUndefined();
});

test('usageIn reads input_tokens and output_tokens, which mlx-vlm sends', () => {
  const own = { input_tokens: 11, output_tokens: 5, total_tokens: 16, prompt_tps: 21.55 };
  expect(usageIn({ usage: own })).toEqual(usage(11, 0, 0, 5));
  expect(usageIn({ usage: { ...own, ...report(10, 6) } })).toEqual(usage(10, 0, 0, 6));
  expect(usageIn({ usage: { input_tokens: 0, output_tokens: 0 } })).toEqual(usage(0, 0, 0, 0));
  expect(usageIn({ usage: { output_tokens: 5 } })).toEqual(usage(0, 0, 0, 5));
  const details = {
    input_tokens_details: { cached_tokens: 8 },
    output_tokens_details: { reasoning_tokens: 4 },
  };
  expect(usageIn({ usage: { ...own, ...details } })).toEqual(usage(3, 8, 0, 5, 4));
  const anthropicCounts = { cache_read_input_tokens: 90, cache_creation_input_tokens: 30 };
  expect(usageIn({ usage: { ...own, ...anthropicCounts } })).toEqual(usage(11, 90, 30, 5));
  expect(usageIn({ usage: { ...own, cache_read_input_tokens: 6 } })).toEqual(usage(11, 6, 0, 5));
  expect(usageIn({ usage: { ...own, cache_read_input_tokens: -6 } })).toBeUndefined();
});

describe('readUsage', () => {
  const written = { ...usage(10, 60, 20, 5), cacheWrite1hTokens: 10 };
  const hour = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 };

  test.each<[string, object, object]>([
    ['LiteLLM', { cache_creation_tokens: 30, cache_creation_token_details: hour }, {}],
    ['Anthropic', { cache_write_tokens: 30 }, { cache_creation: hour }],
    ['OpenAI', { cache_write_tokens: 30, cache_write_tokens_details: { ttl_12h_tokens: 10 } }, {}],
  ])('separates cache writes with a long TTL as %s sends them', (_, details, extraFields) => {
    const prompt_tokens_details = { cached_tokens: 60, ...details };
    expect(readUsage(report(100, 5, { prompt_tokens_details, ...extraFields }))).toEqual(written);
  });

  test.each([31, -1, '10', null, {}])(
    'ignores a count of %p tokens with a long TTL if 30 tokens were written',
    (tokens) => {
      const parts = { cache_creation: { ephemeral_1h_input_tokens: tokens } };
      const raw = report(100, 5, { cache_creation_input_tokens: 30, ...parts });
      expect(readUsage(raw)).toEqual(usage(70, 0, 30, 5));
    },
  );
});

describe('mergeUsage', () => {
  test('uses the last report', () => {
    expect(mergeUsage(usage(10, 0, 0, 1), usage(10, 0, 0, 9))).toEqual(usage(10, 0, 0, 9));
    expect(mergeUsage(usage(10, 0, 0, 1), usage(4, 6, 0, 9))).toEqual(usage(4, 6, 0, 9));
  });

  test('adds a report with only the output to the earlier report', () => {
    const ended = (raw: object, earlier = usage(25, 1000, 0, 1)) => {
      const later = usageIn({ usage: raw }, earlier);
      return later && mergeUsage(earlier, later);
    };
    expect(ended({ output_tokens: 15 })).toEqual(usage(25, 1000, 0, 15));
    expect(ended({ input_tokens: 0, output_tokens: 15 })).toEqual(usage(25, 1000, 0, 15));
    expect(ended({ input_tokens: -1, output_tokens: 15 })).toBeUndefined();
    expect(ended({ input_tokens: 30, output_tokens: 15 })).toEqual(usage(30, 0, 0, 15));
  });

  test('keeps the details of an earlier report for the same prompt', () => {
    const earlier = usage(30, 60, 10, 1, 1);
    expect(mergeUsage(earlier, usage(100, 0, 0, 9))).toEqual(usage(30, 60, 10, 9, 1));
    expect(mergeUsage(earlier, usage(30, 0, 0, 9))).toEqual(usage(30, 60, 10, 9, 1));
    expect(mergeUsage(earlier, usage(101, 0, 0, 9))).toEqual(usage(101, 0, 0, 9, 1));
    expect(mergeUsage(earlier, usage(0, 0, 0, 9))).toEqual(usage(30, 60, 10, 9, 1));
    const withAudio = { ...usage(10, 60, 0, 1), inputAudioTokens: 30 };
    expect(mergeUsage(withAudio, usage(100, 0, 0, 9))).toEqual({ ...withAudio, outputTokens: 9 });
    expect(mergeUsage(withAudio, usage(40, 0, 0, 9))).toEqual({ ...withAudio, outputTokens: 9 });
    expect(mergeUsage(usage(100, 0, 0, 1), withAudio)).toEqual(withAudio);
    const onlyAudio = { ...usage(0, 0, 0, 9), inputAudioTokens: 100 };
    expect(mergeUsage(withAudio, onlyAudio)).toEqual(onlyAudio);
  });
});

test('readMediaUsage separates cached input and rejects impossible counts', () => {
  const media = (input: unknown, output: unknown, cached?: unknown) =>
    readMediaUsage({
      input_tokens: input,
      output_tokens: output,
      input_tokens_details: { cached_tokens: cached },
    });
  expect(media(100, 50, 60)).toEqual(usage(40, 60, 0, 50));
  expect(media(100, 50, 160)).toEqual(usage(0, 100, 0, 50));
  expect(media(0, 50)).toEqual(usage(0, 0, 0, 50));
  expect(media(0, 0)).toBeUndefined();
  expect(media(100, 50, -1)).toBeUndefined();
  expect(media(100, 1.5)).toBeUndefined();
});

test('writeUsage reports all input as prompt tokens and all output as completion tokens', () => {
  expect(writeUsage(usage(10, 60, 30, 50, 40), 12)).toEqual({
    prompt_tokens: 100,
    completion_tokens: 50,
    total_tokens: 150,
    prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    completion_tokens_details: { reasoning_tokens: 40 },
    cost: 12,
  });
  expect(writeUsage(usage(10, 0, 0, 5), 0).prompt_tokens_details).toEqual({ cached_tokens: 0 });
  expect(writeUsage({ ...usage(10, 60, 0, 5), inputAudioTokens: 30 }, 0)).toMatchObject({
    prompt_tokens: 100,
    prompt_tokens_details: { cached_tokens: 60, audio_tokens: 30 },
    total_tokens: 105,
  });
});

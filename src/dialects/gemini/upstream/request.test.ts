import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget } from '../../../../tests/support/prompts.ts';
import type { Prompt, Tool } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { References, writeRequest } from './request.ts';

interface Body {
  readonly systemInstruction?: unknown;
  readonly contents: unknown;
  readonly tools?: unknown;
  readonly toolConfig?: { readonly functionCallingConfig: unknown };
  readonly generationConfig: Record<string, unknown>;
}

function write(fields: Partial<Prompt>, target: Partial<Target> = {}) {
  const request = writeRequest(makePrompt(fields), makeTarget(target));
  return { ...request, body: JSON.parse(String(request.body)) as Body };
}

const tool: Tool = {
  name: 'weather',
  description: 'Tells the weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};
const hello = { role: 'user', parts: [{ text: 'Hello!' }] };

describe('writeRequest path', () => {
  test('contains the model, and the method for streaming or non-streaming answers', () => {
    const upstreamModel = 'gemini-2.5-flash';
    expect(write({}, { upstreamModel }).path).toBe('/models/gemini-2.5-flash:generateContent');
    expect(write({ stream: true }, { upstreamModel }).path).toBe(
      '/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    );
  });

  test.each([
    ['models/gemini-2.5-flash', '/models/gemini-2.5-flash:generateContent'],
    ['../../v1/files?key=a#', '/models/..%2F..%2Fv1%2Ffiles%3Fkey%3Da%23:generateContent'],
    ['a b\ud800', '/models/a%20b%EF%BF%BD:generateContent'],
  ])('escapes the model %p', (upstreamModel, path) => {
    expect(write({}, { upstreamModel }).path).toBe(path);
  });
});

describe('writeRequest instructions', () => {
  test('contain all system texts', () => {
    const { body } = write({
      turns: [
        { role: 'system', parts: [{ kind: 'text', text: 'Be brief.' }] },
        { role: 'user', parts: [{ kind: 'text', text: 'Hello!' }] },
        {
          role: 'system',
          parts: [
            { kind: 'text', text: 'Be kind.' },
            { kind: 'text', text: '' },
          ],
        },
      ],
    });
    expect(body.systemInstruction).toEqual({
      parts: [{ text: 'Be brief.' }, { text: 'Be kind.' }],
    });
    expect(body.contents).toEqual([hello]);
  });

  test('become a user turn if there are no turns, because contents must not be empty', () => {
    const { body } = write({
      turns: [{ role: 'system', parts: [{ kind: 'text', text: 'Write a poem.' }] }],
    });
    expect(body.systemInstruction).toBeUndefined();
    expect(body.contents).toEqual([{ role: 'user', parts: [{ text: 'Write a poem.' }] }]);
    expect(write({ turns: [] }).body.contents).toEqual([{ role: 'user', parts: [{ text: ' ' }] }]);
  });
});

describe('writeRequest tools', () => {
  const placeSchema = { type: ['string', 'null'], pattern: '^[a-z]+$', default: 'here' };
  const referring = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { at: { $ref: '#/$defs/place', title: 'At' }, kind: { const: 'now' } },
    $defs: { place: placeSchema },
    required: ['at'],
    additionalProperties: false,
  };
  const resolved = {
    type: 'object',
    properties: { at: { ...placeSchema, title: 'At' }, kind: { const: 'now' } },
    required: ['at'],
    additionalProperties: false,
  };

  test('keep their JSON Schema without $schema and references', () => {
    expect(write({ tools: [{ ...tool, parameters: referring }] }).body.tools).toEqual([
      {
        functionDeclarations: [
          { name: 'weather', description: 'Tells the weather', parametersJsonSchema: resolved },
        ],
      },
    ]);
  });

  test('and JSON answers have no references in their schemas', () => {
    const { generationConfig } = write({ json: { schema: referring, name: 'place' } }).body;
    expect(generationConfig.responseJsonSchema).toEqual(resolved);
  });

  test.each([
    null,
    {},
    { type: 'object' },
    { type: 'object', properties: {}, additionalProperties: false },
    { $ref: '#/$defs/a', $defs: { a: { type: 'object' } } },
  ])('without parameters have no schema: %j', (parameters) => {
    expect(write({ tools: [{ name: 'now', parameters }] }).body.tools).toEqual([
      { functionDeclarations: [{ name: 'now' }] },
    ]);
  });

  test('get the type object if their schema has no type', () => {
    const parameters = { properties: { city: { type: 'string' } }, required: ['city'] };
    expect(write({ tools: [{ name: 'now', parameters }] }).body.tools).toEqual([
      {
        functionDeclarations: [
          { name: 'now', parametersJsonSchema: { type: 'object', ...parameters } },
        ],
      },
    ]);
  });

  test.each([
    { $ref: '#/$defs/a', $defs: { a: { anyOf: [{ $ref: '#/$defs/a' }] } } },
    { anyOf: [{ type: 'object' }] },
    { type: 'object', additionalProperties: { type: 'string' } },
  ])('with unnamed parameters keep their schema: %j', (parameters) => {
    expect(write({ tools: [{ name: 'now', parameters }] }).body.tools).toEqual([
      { functionDeclarations: [{ name: 'now', parametersJsonSchema: parameters }] },
    ]);
  });

  test.each([
    [null, undefined],
    ['auto', { mode: 'AUTO' }],
    ['none', { mode: 'NONE' }],
    ['required', { mode: 'ANY' }],
    [{ name: 'weather' }, { mode: 'ANY', allowedFunctionNames: ['weather'] }],
  ] as const)('are written with the choice %j', (toolChoice, config) => {
    const { body } = write({ tools: [tool], toolChoice });
    expect(body.toolConfig?.functionCallingConfig).toEqual(config);
    expect(write({ toolChoice }).body.toolConfig).toBeUndefined();
  });

  test('use the mode VALIDATED if one is strict and the choice is free', () => {
    const tools = [tool, { ...tool, name: 'news', strict: true }];
    const mode = (toolChoice: Prompt['toolChoice']) =>
      write({ tools, toolChoice }).body.toolConfig?.functionCallingConfig;
    expect(mode(null)).toEqual({ mode: 'VALIDATED' });
    expect(mode('auto')).toEqual({ mode: 'VALIDATED' });
    expect(mode('required')).toEqual({ mode: 'ANY' });
  });
});

describe('writeRequest settings', () => {
  test("have Gemini's names", () => {
    const { body, dropped } = write({
      outputTokensMax: 100,
      choices: 3,
      stop: ['a', 'b'],
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        seed: 7,
        presencePenalty: 0.1,
        frequencyPenalty: -0.2,
      },
    });
    expect(body.generationConfig).toEqual({
      candidateCount: 3,
      maxOutputTokens: 100,
      temperature: 0.5,
      topP: 0.9,
      topK: 40,
      seed: 7,
      presencePenalty: 0.1,
      frequencyPenalty: -0.2,
      stopSequences: ['a', 'b'],
    });
    expect(dropped).toEqual([]);
  });

  test("have the gateway's output cap if it is lower than the client's", () => {
    const { body } = write({ outputTokensMax: 100 }, { outputTokensMax: 30 });
    expect(body.generationConfig).toEqual({ maxOutputTokens: 30 });
  });

  test("are limited to the model's maximum output", () => {
    const { body } = write({ outputTokensMax: 100 }, { modelOutputTokensMax: 64 });
    expect(body.generationConfig).toEqual({ maxOutputTokens: 64 });
  });

  test('that Gemini lacks are reported as dropped', () => {
    const { body, dropped } = write({
      user: 'ann',
      parallelTools: false,
      sampling: { logprobs: true, topLogprobs: 3, logitBias: { 1: 2 }, seed: 2 ** 31 },
      stop: ['1', '2', '3', '4', '5', '6'],
      tools: [{ ...tool, cacheControl: { type: 'ephemeral' } }],
    });
    expect(new Set(dropped)).toEqual(
      new Set([
        'user',
        'parallel_tool_calls',
        'logprobs',
        'top_logprobs',
        'logit_bias',
        'seed',
        'stop',
        'cache_control',
      ]),
    );
    expect(body.generationConfig).toEqual({ stopSequences: ['1', '2', '3', '4', '5'] });
  });

  test('are dropped by drop_params', () => {
    const quirks = { drop_params: ['temperature', 'stop', 'tool_choice'] };
    const sampling = { temperature: 1, topP: 0.5 };
    const tools = [{ name: 'look', parameters: null }];
    const options = { sampling, stop: ['a'], tools, toolChoice: 'required' } as const;
    const { body, dropped } = write(options, { quirks });
    expect(body.generationConfig).toEqual({ topP: 0.5 });
    expect(body.toolConfig).toBeUndefined();
    expect(dropped).toEqual(['temperature', 'stop', 'tool_choice']);
  });

  test('report reasoning other than none as dropped if the model does not reason', () => {
    const settingsFor = (effort: 'none' | 'high') => {
      const reasoning = { effort, budgetTokens: null, visible: true };
      const { body, dropped } = write({ reasoning }, { thinking: null });
      return [body.generationConfig, dropped];
    };
    expect(settingsFor('high')).toEqual([{}, ['reasoning']]);
    expect(settingsFor('none')).toEqual([{}, []]);
  });

  test('request images if the model generates them', () => {
    const modalities = (outputModalities: string[]) =>
      write({}, { outputModalities }).body.generationConfig.responseModalities;
    expect(modalities(['text'])).toBeUndefined();
    expect(modalities(['text', 'image'])).toEqual(['TEXT', 'IMAGE']);
    expect(modalities(['image'])).toEqual(['IMAGE']);
  });
});

describe('writeRequest JSON output', () => {
  const schema = { $schema: 'x', type: 'array', items: { type: 'string' } };

  test('is requested with or without a schema', () => {
    expect(write({ json: { schema: null, name: 'a' } }).body.generationConfig).toEqual({
      responseMimeType: 'application/json',
    });
    expect(write({ json: { schema, name: 'a' } }).body.generationConfig).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'array', items: { type: 'string' } },
    });
  });

  test.each([
    ['budget', null, true],
    [null, 'auto', true],
    ['effort', 'auto', false],
    ['effort', null, false],
    ['effort', 'required', true],
    ['effort', { name: 'weather' }, true],
  ] as const)(
    'with tools, thinking %p, and choice %j uses an instruction: %p',
    (thinking, choice, isInstructed) => {
      const { body } = write(
        { tools: [tool], toolChoice: choice, json: { schema, name: 'a' } },
        { thinking },
      );
      expect(body.generationConfig.responseMimeType === undefined).toBe(isInstructed);
      expect(JSON.stringify(body.systemInstruction ?? '').includes('JSON Schema')).toBe(
        isInstructed,
      );
    },
  );
});

const city = { type: 'object', properties: { name: { type: 'string' } } };
const resolve = (schema: Record<string, unknown>) => new References().resolveIn(schema);

test('References replaces references with their schema', () => {
  const schema = {
    type: 'object',
    properties: {
      from: { $ref: '#/$defs/City' },
      to: { anyOf: [{ $ref: '#/definitions/a~1b' }, { type: 'null' }] },
      via: { type: 'array', items: { $ref: '#/properties/from' } },
    },
    not: { $ref: '#/$defs/City' },
    $defs: { City: city },
    definitions: { 'a/b': city },
  };
  expect(resolve(schema)).toEqual({
    type: 'object',
    properties: {
      from: city,
      to: { anyOf: [city, { type: 'null' }] },
      via: { type: 'array', items: city },
    },
    not: city,
  });
});

test('References keeps keywords next to a reference', () => {
  const from = { $ref: '#/$defs/City', description: 'Where it starts', title: 'From' };
  expect(resolve({ properties: { from }, $defs: { City: { ...city, title: 'City' } } })).toEqual({
    properties: { from: { ...city, title: 'From', description: 'Where it starts' } },
  });
});

test('References keeps recursive references, with only a description', () => {
  const next = { $ref: '#/$defs/Node', description: 'The rest', title: 'Next', examples: [1] };
  const root = (of: object) => ({
    $ref: '#/$defs/Node',
    $defs: { Node: { type: 'object', properties: { next: of } } },
  });
  const reduced = { $ref: '#/$defs/Node', description: 'The rest' };
  expect(resolve({ type: 'object', properties: { list: next }, $defs: root(next).$defs })).toEqual({
    type: 'object',
    properties: { list: reduced },
    $defs: root(reduced).$defs,
  });
});

test.each(['#/$defs/Missing', '#/__proto__/x', 'https://example.com/city.json', '#', '#/type'])(
  'References keeps the unresolvable reference %s',
  (reference) => {
    const schema = { type: 'object', properties: { city: { $ref: reference } } };
    expect(resolve(schema)).toEqual(schema);
  },
);

test('References ignores data that looks like a reference', () => {
  const schema = {
    type: 'object',
    properties: { $ref: { type: 'string' }, definitions: { type: 'string' } },
    default: { $ref: '#/$defs/City' },
    enum: [{ $ref: '#/$defs/City' }],
  };
  expect(resolve(schema)).toEqual(schema);
});

test('References limits the growth of nested references', () => {
  const doubled = (at: number) => ({ anyOf: [1, 2].map(() => ({ $ref: `#/$defs/d${at + 1}` })) });
  const levels = Array.from({ length: 40 }, (_, index) => [`d${index}`, doubled(index)]);
  const $defs = { ...Object.fromEntries(levels), d40: city };
  const schema = { type: 'object', properties: { all: { $ref: '#/$defs/d0' } }, $defs };
  const references = new References();
  expect(references.resolveIn(schema)).toEqual(schema);
  // All tools of a request share one limit.
  const small = { type: 'object', properties: { city: { $ref: '#/$defs/d40' } }, $defs };
  expect(references.resolveIn(small)).toEqual(small);
});

test('References keeps references to a long schema that is used often', () => {
  const long = { type: 'string', description: 'x'.repeat(10_000) };
  const referring = (times: number) => {
    const names = Array.from({ length: times }, (_, index) => `p${index}`);
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/long' }]));
    return { type: 'object', properties, $defs: { long } };
  };
  const [few, many] = [referring(20), referring(9_000)];
  expect(resolve(few)).not.toHaveProperty('$defs');
  expect(resolve(many)).toEqual(many);
});

test('References keeps a long chain of references', () => {
  const levels = Array.from({ length: 500 }, (_, index) => [
    `d${index}`,
    { type: 'array', items: { $ref: `#/$defs/d${index + 1}` } },
  ]);
  const $defs = { ...Object.fromEntries(levels), d500: city };
  const schema = { type: 'object', properties: { all: { $ref: '#/$defs/d0' } }, $defs };
  expect(resolve(schema)).toEqual(schema);
});

import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget, userTurn } from '../../../../tests/support/prompts.ts';
import type {
  AssistantPart,
  DocumentPart,
  Prompt,
  Tool,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { writeRequest } from './request.ts';

interface Body {
  readonly system?: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly object[] }[];
  readonly inferenceConfig?: Record<string, unknown>;
  readonly toolConfig?: { readonly tools: readonly object[]; readonly toolChoice?: unknown };
  readonly outputConfig?: unknown;
  readonly additionalModelRequestFields?: unknown;
  readonly additionalModelResponseFieldPaths?: unknown;
}

function write(fields: Partial<Prompt>, target: Partial<Target> = {}) {
  const request = writeRequest(makePrompt(fields), makeTarget({ thinking: null, ...target }));
  return { ...request, body: JSON.parse(String(request.body)) as Body };
}

const tool: Tool = {
  name: 'weather',
  description: 'Tells the weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};
const toolSpec = {
  name: 'weather',
  description: 'Tells the weather',
  inputSchema: { json: tool.parameters },
};
const turnsWithCall: readonly Turn[] = [
  userTurn('Rain?'),
  { role: 'assistant', parts: [{ kind: 'tool_call', id: 'c1', name: 'weather', arguments: '{}' }] },
  {
    role: 'user',
    parts: [
      { kind: 'tool_result', callId: 'c1', parts: [{ kind: 'text', text: 'No.' }], isError: false },
    ],
  },
];

test('writeRequest sends only the messages for a plain question', () => {
  const { path, body, dropped } = write({});
  expect(path).toBe('/model/chat-large/converse');
  expect(body).toEqual({ messages: [{ role: 'user', content: [{ text: 'Hello!' }] }] });
  expect(dropped).toEqual([]);
});

test.each([
  [
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    'us.anthropic.claude-sonnet-4-5-20250929-v1%3A0',
  ],
  [
    'arn:aws:bedrock:eu-west-1:1:inference-profile/x',
    'arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx',
  ],
  ['a/../b?c#\ud800', 'a%2F..%2Fb%3Fc%23%EF%BF%BD'],
])('writeRequest escapes the model %s in the path', (upstreamModel, encoded) => {
  expect(write({ stream: true }, { upstreamModel }).path).toBe(`/model/${encoded}/converse-stream`);
});

test('writeRequest maps supported parameters and reports the others as dropped', () => {
  const { body, dropped } = write({
    outputTokensMax: 100,
    stop: ['END', ' '],
    sampling: { temperature: 1.7, topP: 0.5, topK: 7, seed: 3, logprobs: true },
    choices: 2,
    parallelTools: false,
    user: 'someone',
  });
  expect(body.inferenceConfig).toEqual({
    maxTokens: 100,
    temperature: 1,
    topP: 0.5,
    stopSequences: ['END'],
  });
  expect(body.additionalModelRequestFields).toEqual({ top_k: 7 });
  expect(body.additionalModelResponseFieldPaths).toEqual([
    '/stop_sequence',
    '/delta/stop_sequence',
  ]);
  expect([...(dropped ?? [])].toSorted()).toEqual([
    ...['logprobs', 'n', 'parallel_tool_calls', 'seed', 'stop', 'user'],
  ]);
});

test('writeRequest limits maxTokens to the lowest cap', () => {
  const limits = { outputTokensMax: 5_000, modelOutputTokensMax: 4_096 };
  expect(write({ outputTokensMax: 9_000 }, limits).body.inferenceConfig).toEqual({
    maxTokens: 4_096,
  });
});

test('writeRequest drops and reports the parameters in drop_params', () => {
  const quirks = { drop_params: ['temperature', 'cache_control'] };
  const cacheControl = { type: 'ephemeral' };
  const turns = [{ role: 'user', parts: [{ kind: 'text', text: 'Hi', cacheControl }] }] as const;
  const { body, dropped } = write({ turns, sampling: { temperature: 0 } }, { quirks });
  expect(body).toEqual({ messages: [{ role: 'user', content: [{ text: 'Hi' }] }] });
  expect(dropped).toEqual(['temperature', 'cache_control']);
});

describe('writeRequest for reasoning', () => {
  const reasoning = { effort: null, budgetTokens: 2_000, visible: true };
  const sampling = { temperature: 0.5, topP: 0.5, topK: 7 };

  test('sends a budget with an output cap and without sampling parameters', () => {
    const { body, dropped } = write({ reasoning, sampling }, { thinking: 'budget' });
    expect(body.additionalModelRequestFields).toEqual({
      thinking: { type: 'enabled', budget_tokens: 2_000 },
    });
    expect(body.inferenceConfig).toEqual({ maxTokens: 8_192 });
    expect(dropped).toEqual(['temperature', 'top_p', 'top_k']);
  });

  test('sends adaptive thinking with an effort', () => {
    const reasoning = { effort: 'high', budgetTokens: null, visible: true } as const;
    const { body } = write({ reasoning }, { thinking: 'adaptive' });
    expect(body.additionalModelRequestFields).toEqual({
      thinking: { type: 'adaptive', display: 'summarized' },
      output_config: { effort: 'high' },
    });
  });

  test('sends an effort as reasoning_effort', () => {
    const reasoning = { effort: 'low', budgetTokens: null, visible: true } as const;
    const { body } = write({ reasoning }, { thinking: 'effort' });
    expect(body.additionalModelRequestFields).toEqual({ reasoning_effort: 'low' });
  });

  test("drops reasoning if the model doesn't think", () => {
    const { body, dropped } = write({ reasoning });
    expect(body.additionalModelRequestFields).toBeUndefined();
    expect(dropped).toEqual(['reasoning']);
  });

  test('sends only one of temperature and top_p to models that can think', () => {
    const both = { temperature: 0.5, topP: 0.5 };
    expect(write({ sampling: both }).body.inferenceConfig).toEqual(both);
    const thinkingModel = write({ sampling: both }, { thinking: 'budget' });
    expect(thinkingModel.body.inferenceConfig).toEqual({ temperature: 0.5 });
    expect(thinkingModel.dropped).toEqual(['top_p']);
  });
});

describe('writeRequest for JSON', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 3 } } };
  const json = { schema, name: 'answer', description: 'An answer' };

  test('writes a schema as the last instruction', () => {
    const system: Turn = { role: 'system', parts: [{ kind: 'text', text: 'Be brief.' }] };
    const { body } = write({ json, turns: [system, userTurn('Hello!')] });
    expect(body.outputConfig).toBeUndefined();
    expect(body.system).toEqual([
      { text: 'Be brief.' },
      { text: expect.stringContaining(`JSON Schema:\n${JSON.stringify(schema)}`) },
    ]);
  });

  test('writes an instruction if there is no schema, even if the model supports schemas', () => {
    const { body } = write(
      { json: { schema: null, name: 'x' } },
      { quirks: { json_schema: 'native' } },
    );
    expect(body.system).toEqual([{ text: expect.stringContaining('JSON object') }]);
    expect(body.outputConfig).toBeUndefined();
  });

  test('writes a format without unsupported keywords if the model supports schemas', () => {
    const { body } = write({ json }, { quirks: { json_schema: 'native' } });
    expect(body.system).toBeUndefined();
    const plain = {
      type: 'object',
      properties: { a: { type: 'integer' } },
      additionalProperties: false,
    };
    const jsonSchema = {
      schema: JSON.stringify(plain),
      name: 'answer',
      description: 'An answer',
    };
    expect(body.outputConfig).toEqual({
      textFormat: { type: 'json_schema', structure: { jsonSchema } },
    });
  });
});

describe('writeRequest for tools', () => {
  test.each([
    [null, undefined],
    ['auto', undefined],
    ['required', { any: {} }],
    [{ name: 'weather' }, { tool: { name: 'weather' } }],
  ] as const)('writes the tool choice %p', (toolChoice, written) => {
    const { body } = write({ tools: [tool], toolChoice });
    expect(body.toolConfig).toEqual({
      tools: [{ toolSpec }],
      ...(written && { toolChoice: written }),
    });
  });

  test('drops tools for the choice none, unless the conversation has calls', () => {
    const without = write({ tools: [tool], toolChoice: 'none' });
    expect([without.body.toolConfig, without.dropped]).toEqual([undefined, []]);
    const withCall = write({ tools: [tool], toolChoice: 'none', turns: turnsWithCall });
    expect(withCall.body.toolConfig).toEqual({ tools: [{ toolSpec }] });
    expect(withCall.dropped).toEqual(['tool_choice']);
  });

  test('declares tools that were called if the request has none', () => {
    const { body } = write({ turns: turnsWithCall });
    expect(body.toolConfig).toEqual({
      tools: [{ toolSpec: { name: 'weather', inputSchema: { json: { type: 'object' } } } }],
    });
  });

  test('drops $schema and $id, which Nova rejects', () => {
    const ids = { $schema: 'http://json-schema.org/draft-07/schema#', $id: 'https://a.example/' };
    const tools = [{ ...tool, parameters: { ...ids, ...tool.parameters } }];
    expect(write({ tools }).body.toolConfig?.tools).toEqual([{ toolSpec }]);
  });

  const native = { quirks: { json_schema: 'native' } } as const;

  test('sends strict tools if the model supports schemas', () => {
    const city = { type: 'string', minLength: 1 };
    const parameters = { type: 'object', properties: { city } };
    const tools = [{ ...tool, parameters, strict: true }];
    const unsupported = write({ tools });
    const lenientSpec = { ...toolSpec, inputSchema: { json: parameters } };
    expect(unsupported.body.toolConfig?.tools).toEqual([{ toolSpec: lenientSpec }]);
    expect(unsupported.dropped).toEqual(['strict']);
    const json = { ...tool.parameters, additionalProperties: false };
    const strictSpec = { ...toolSpec, inputSchema: { json }, strict: true };
    const supported = write({ tools }, native);
    expect(supported.body.toolConfig?.tools).toEqual([{ toolSpec: strictSpec }]);
    expect(supported.dropped).toEqual([]);
  });

  test('drops strict if there are too many strict tools', () => {
    const tools = Array.from({ length: 21 }, (_, index) => ({
      ...tool,
      name: `t${index}`,
      strict: true,
    }));
    const { body, dropped } = write({ tools }, native);
    expect(body.toolConfig?.tools[0]).toEqual({ toolSpec: { ...toolSpec, name: 't0' } });
    expect(dropped).toEqual(['strict']);
  });

  test('writes a cache point with its TTL after a tool with cache_control', () => {
    const marked = (ttl?: string) => ({ ...tool, cacheControl: { type: 'ephemeral', ttl } });
    expect(write({ tools: [marked(), tool] }).body.toolConfig?.tools).toEqual([
      { toolSpec },
      { cachePoint: { type: 'default' } },
      { toolSpec },
    ]);
    expect(write({ tools: [marked('1h')] }).body.toolConfig?.tools[1]).toEqual({
      cachePoint: { type: 'default', ttl: '1h' },
    });
  });
});

test('writeRequest reports a top-level cache_control as dropped', () => {
  expect(write({ cacheControl: { type: 'ephemeral' } }).dropped).toEqual(['cache_control']);
  expect(write({}).dropped).toEqual([]);
});

interface Message {
  readonly role: string;
  readonly content: readonly Record<string, unknown>[];
}

function writeTurn(turns: readonly Turn[], target: Partial<Target> = {}) {
  const request = writeRequest(
    makePrompt({ turns }),
    makeTarget({ thinking: 'budget', ...target }),
  );
  const body = JSON.parse(String(request.body)) as { system?: unknown; messages: Message[] };
  return { ...body, dropped: request.dropped };
}

const user = (...parts: UserPart[]): Turn => ({ role: 'user', parts });
const assistant = (...parts: AssistantPart[]): Turn => ({ role: 'assistant', parts });
const text = (content: string) => ({ kind: 'text', text: content }) as const;
const call = (id: string) => ({ kind: 'tool_call', id, name: 'f', arguments: '{"a":1}' }) as const;
const result = (callId: string, content: string, isError = false) =>
  ({ kind: 'tool_result', callId, parts: [text(content)], isError }) as const;
const marked = { cacheControl: { type: 'ephemeral' } };
const cachePoint = { cachePoint: { type: 'default' } };

describe('writeRequest for turns', () => {
  test('alternates roles and starts with the user', () => {
    const { messages } = writeTurn([
      assistant(text('Hi.')),
      assistant(text('Well?')),
      userTurn('Yes'),
      userTurn('No'),
    ]);
    expect(messages).toEqual([
      { role: 'user', content: [{ text: 'Continue.' }] },
      { role: 'assistant', content: [{ text: 'Hi.' }, { text: 'Well?' }] },
      { role: 'user', content: [{ text: 'Yes' }, { text: 'No' }] },
    ]);
  });

  test('drops blank turns, but sends at least one', () => {
    const { messages, system } = writeTurn([
      { role: 'system', parts: [text('Be brief.'), text('  ')] },
      user(text('\n')),
    ]);
    expect(system).toEqual([{ text: 'Be brief.' }]);
    expect(messages).toEqual([{ role: 'user', content: [{ text: 'Continue.' }] }]);
  });

  test('trims the last assistant turn, or adds a user turn if required', () => {
    const turns = [userTurn('Count'), assistant(text('One, '))];
    expect(writeTurn(turns).messages.at(-1)).toEqual({
      role: 'assistant',
      content: [{ text: 'One,' }],
    });
    expect(writeTurn(turns, { thinking: 'adaptive' }).messages.at(-1)).toEqual({
      role: 'user',
      content: [{ text: 'Continue.' }],
    });
    const cached = [userTurn('Count'), assistant({ ...text('One, '), ...marked })];
    expect(writeTurn(cached).messages.at(-1)?.content).toEqual([{ text: 'One,' }, cachePoint]);
  });

  test('writes all tool results first in one message', () => {
    const { messages } = writeTurn([
      userTurn('Go'),
      assistant(call('c1'), call('c2')),
      user(result('c1', 'one'), text('and')),
      user({ ...result('c2', 'two', true), ...marked }),
    ]);
    const toolUse = (toolUseId: string) => ({ toolUse: { toolUseId, name: 'f', input: { a: 1 } } });
    expect(messages.slice(1)).toEqual([
      { role: 'assistant', content: [toolUse('c1'), toolUse('c2')] },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'c1', content: [{ text: 'one' }] } },
          { toolResult: { toolUseId: 'c2', content: [{ text: 'two' }], status: 'error' } },
          cachePoint,
          { text: 'and' },
        ],
      },
    ]);
  });

  test('fills empty tool results, which some models reject', () => {
    const image = { kind: 'image', url: 'data:image/gif;base64,R0lG' } as const;
    const { messages } = writeTurn([
      userTurn('Go'),
      assistant(call('c1'), call('c2'), call('c3')),
      user(result('c1', ' \n'), { ...result('c2', ''), parts: [] }),
      user({ ...result('c3', ''), parts: [text(''), image] }),
    ]);
    const results = messages.at(-1)?.content.map(({ toolResult }) => toolResult);
    expect(results).toMatchObject([
      { toolUseId: 'c1', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c2', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c3', content: [{ image: { format: 'gif' } }] },
    ]);
  });

  test('merges 10,000 turns of one role', () => {
    const { messages } = writeTurn(
      Array.from({ length: 10_000 }, (_, index) => userTurn(`w${index}`)),
    );
    expect(messages).toHaveLength(1);
    expect(messages[0]?.content).toHaveLength(10_000);
  });
});

describe('writeRequest for parts', () => {
  test('writes a cache point after a part with cache_control', () => {
    const { messages, system } = writeTurn([
      { role: 'system', parts: [{ ...text('Rules'), ...marked }] },
      user({ ...text('Book'), ...marked }, text('Question')),
    ]);
    expect(system).toEqual([{ text: 'Rules' }, cachePoint]);
    expect(messages[0]?.content).toEqual([{ text: 'Book' }, cachePoint, { text: 'Question' }]);
  });

  test('drops the cache point after a document that is not a PDF', () => {
    const document = (type: string) =>
      ({
        kind: 'document',
        name: 'tides',
        source: { url: `data:${type};base64,aGk=` },
        ...marked,
      }) as const;
    const { messages, dropped } = writeTurn([
      user(document('text/csv'), document('application/pdf')),
    ]);
    const kinds = messages[0]?.content.flatMap((block) => Object.keys(block));
    expect(kinds).toEqual(['document', 'document', 'cachePoint', 'text']);
    expect(dropped).toEqual(['cache_control']);
  });

  test('writes images as bytes', () => {
    const imagePart = (url: string) => ({ kind: 'image', url }) as const;
    const resultWithImage = {
      ...result('c1', ' '),
      parts: [imagePart('data:image/gif;base64,R0lG')],
    };
    const { messages } = writeTurn([
      user(imagePart('data:image/jpg;base64,/9j/'), imagePart('data:image/webp;base64,UklG')),
      assistant(call('c1')),
      user(resultWithImage),
    ]);
    const image = (format: string, bytes: string) => ({ image: { format, source: { bytes } } });
    expect(messages[0]?.content).toEqual([image('jpeg', '/9j/'), image('webp', 'UklG')]);
    expect(messages[2]?.content).toEqual([
      { toolResult: { toolUseId: 'c1', content: [image('gif', 'R0lG')] } },
    ]);
  });

  test.each(['data:image/tiff;base64,SUkq', 'https://a.example/x', 'data:,%'])(
    'rejects the image %s',
    (url) => {
      expect(() => writeTurn([user({ kind: 'image', url })])).toThrow('PNG, JPEG, GIF, and WebP');
    },
  );

  test('drops and reports audio', () => {
    const { messages, dropped } = writeTurn([
      user({ kind: 'audio', data: 'UklG', format: 'wav' }, text('What?')),
    ]);
    expect(messages[0]?.content).toEqual([{ text: 'What?' }]);
    expect(dropped).toEqual(['input_audio']);
  });

  test.each([
    ['Bedrock', {}, /^[\w-]{1,64}$/],
    ['Mistral', { tool_call_ids: 'nine_characters' }, /^[A-Za-z0-9]{9}$/],
  ] as const)(
    'replaces call IDs that %s rejects, consistently for call and result',
    (_, quirks, pattern) => {
      const [invalid, long] = ['call.1:ü', 'x'.repeat(65)];
      const turns = [
        userTurn('Go'),
        assistant(call(invalid), call(long)),
        user(result(invalid, 'a'), result(long, 'b')),
      ];
      const { messages } = writeTurn(turns, { quirks });
      const ids = messages.slice(1).map(({ content }) =>
        content.map((block) => {
          const { toolUseId } = (block.toolUse ?? block.toolResult) as { toolUseId: string };
          return toolUseId;
        }),
      );
      expect(ids[0]).toEqual(ids[1] ?? []);
      expect(new Set(ids[0]).size).toBe(2);
      for (const id of ids[0] ?? []) expect(id).toMatch(pattern);
    },
  );
});

describe('writeRequest for earlier reasoning', () => {
  const parts: AssistantPart[] = [
    { kind: 'reasoning', text: 'Hm.', signature: 'sig' },
    { kind: 'reasoning', text: 'Unsigned.' },
    { kind: 'reasoning', text: 'Foreign.', signature: 'gemini:sig' },
    { kind: 'reasoning', text: '', redacted: 'EtkE+/=' },
    text('Yes.'),
  ];
  const turns = [userTurn('A'), assistant(...parts), userTurn('B')];

  test("sends only Anthropic's signed or encrypted reasoning", () => {
    expect(writeTurn(turns).messages[1]?.content).toEqual([
      { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'sig' } } },
      { reasoningContent: { redactedContent: Buffer.from('EtkE+/=').toString('base64') } },
      { text: 'Yes.' },
    ]);
  });

  test.each([null, 'effort'] as const)(
    'drops it for models that do not sign their reasoning: %p',
    (thinking) => {
      expect(writeTurn(turns, { thinking }).messages[1]?.content).toEqual([{ text: 'Yes.' }]);
    },
  );
});

describe('writeRequest for documents', () => {
  const document = (source: DocumentPart['source'], name?: string): DocumentPart => ({
    kind: 'document',
    source,
    name,
  });
  const pdf = { url: 'data:application/pdf;base64,JVBE' };
  const written = (format: string, name: string, bytes: string) => ({
    document: { format, name, source: { bytes } },
  });

  test('writes unique names that Bedrock accepts', () => {
    const { messages } = writeTurn([
      user(
        document(pdf, 'Q3__report (final).pdf'),
        document(pdf, 'Q3 report (final) pdf'),
        document({ text: 'Hi' }),
        document({ url: 'data:text/markdown,%23%20A' }, '…'),
        document(pdf, 'x'.repeat(300)),
        text('Compare'),
      ),
    ]);
    expect(messages[0]?.content).toEqual([
      written('pdf', 'Q3 report (final) pdf', 'JVBE'),
      written('pdf', 'Q3 report (final) pdf 2', 'JVBE'),
      written('txt', 'document', 'SGk='),
      written('md', 'document 2', 'IyBB'),
      written('pdf', 'x'.repeat(190), 'JVBE'),
      { text: 'Compare' },
    ]);
  });

  test('drops blank documents', () => {
    const { messages } = writeTurn([user(document({ text: ' \n' }, 'a'), text('Well?'))]);
    expect(messages[0]?.content).toEqual([{ text: 'Well?' }]);
  });

  test('adds text to a message that has only documents', () => {
    const { messages } = writeTurn([user(document(pdf, 'a'))]);
    expect(messages[0]?.content).toEqual([
      written('pdf', 'a', 'JVBE'),
      { text: 'See the attached document.' },
    ]);
  });

  test.each([
    [{ url: 'https://a.example/x.pdf' }, 'only as data: URLs'],
    [{ fileId: 'file_1' }, 'only as data: URLs'],
    [{ url: 'data:application/zip;base64,UEsD' }, 'of type application/zip'],
  ])('rejects the document %p', (source, message) => {
    expect(() => writeTurn([user(document(source))])).toThrow(message);
  });
});

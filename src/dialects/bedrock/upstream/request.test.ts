import { describe, expect, test } from 'bun:test';
import { makePrompt, userTurn, makeTarget } from '../../../../tests/support/prompts.ts';
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

function write(given: Partial<Prompt>, target: Partial<Target> = {}) {
  const request = writeRequest(makePrompt(given), makeTarget({ thinking: null, ...target }));
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
const called: readonly Turn[] = [
  userTurn('Rain?'),
  { role: 'assistant', parts: [{ kind: 'tool_call', id: 'c1', name: 'weather', arguments: '{}' }] },
  {
    role: 'user',
    parts: [
      { kind: 'tool_result', callId: 'c1', parts: [{ kind: 'text', text: 'No.' }], isError: false },
    ],
  },
];

test('a plain question says nothing but itself', () => {
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
])('the model %s stands safely in the path of a stream', (upstreamModel, encoded) => {
  expect(write({ stream: true }, { upstreamModel }).path).toBe(`/model/${encoded}/converse-stream`);
});

test('parameters go where Bedrock has words for them, and the others are told', () => {
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

test('the cap is the one that is paid for, and no more than the model has', () => {
  const limits = { outputTokensMax: 5_000, modelOutputTokensMax: 4_096 };
  expect(write({ outputTokensMax: 9_000 }, limits).body.inferenceConfig).toEqual({
    maxTokens: 4_096,
  });
});

test('a parameter that the operator leaves out is left out and told', () => {
  const quirks = { drop_params: ['temperature', 'cache_control'] };
  const cacheControl = { type: 'ephemeral' };
  const turns = [{ role: 'user', parts: [{ kind: 'text', text: 'Hi', cacheControl }] }] as const;
  const { body, dropped } = write({ turns, sampling: { temperature: 0 } }, { quirks });
  expect(body).toEqual({ messages: [{ role: 'user', content: [{ text: 'Hi' }] }] });
  expect(dropped).toEqual(['temperature', 'cache_control']);
});

describe('thinking', () => {
  const reasoning = { effort: null, budgetTokens: 2_000, visible: true };
  const sampling = { temperature: 0.5, topP: 0.5, topK: 7 };

  test('in tokens has a cap around it, and nothing is sampled meanwhile', () => {
    const { body, dropped } = write({ reasoning, sampling }, { thinking: 'budget' });
    expect(body.additionalModelRequestFields).toEqual({
      thinking: { type: 'enabled', budget_tokens: 2_000 },
    });
    expect(body.inferenceConfig).toEqual({ maxTokens: 8_192 });
    expect(dropped).toEqual(['temperature', 'top_p', 'top_k']);
  });

  test('as the model sees fit has an effort', () => {
    const wish = { effort: 'high', budgetTokens: null, visible: true } as const;
    const { body } = write({ reasoning: wish }, { thinking: 'adaptive' });
    expect(body.additionalModelRequestFields).toEqual({
      thinking: { type: 'adaptive', display: 'summarized' },
      output_config: { effort: 'high' },
    });
  });

  test('in efforts alone goes by OpenAI’s name', () => {
    const wish = { effort: 'low', budgetTokens: null, visible: true } as const;
    const { body } = write({ reasoning: wish }, { thinking: 'effort' });
    expect(body.additionalModelRequestFields).toEqual({ reasoning_effort: 'low' });
  });

  test('is dropped where the model does not think', () => {
    const { body, dropped } = write({ reasoning });
    expect(body.additionalModelRequestFields).toBeUndefined();
    expect(dropped).toEqual(['reasoning']);
  });

  test('models that can think take one way of sampling, others both', () => {
    const both = { temperature: 0.5, topP: 0.5 };
    expect(write({ sampling: both }).body.inferenceConfig).toEqual(both);
    const able = write({ sampling: both }, { thinking: 'budget' });
    expect(able.body.inferenceConfig).toEqual({ temperature: 0.5 });
    expect(able.dropped).toEqual(['top_p']);
  });
});

describe('JSON', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 3 } } };
  const json = { schema, name: 'answer', description: 'An answer' };

  test('with a schema is an instruction after the others', () => {
    const system: Turn = { role: 'system', parts: [{ kind: 'text', text: 'Be brief.' }] };
    const { body } = write({ json, turns: [system, userTurn('Hello!')] });
    expect(body.outputConfig).toBeUndefined();
    expect(body.system).toEqual([
      { text: 'Be brief.' },
      { text: expect.stringContaining(`JSON Schema:\n${JSON.stringify(schema)}`) },
    ]);
  });

  test('of any kind is an instruction also where schemas are known', () => {
    const { body } = write(
      { json: { schema: null, name: 'x' } },
      { quirks: { json_schema: 'native' } },
    );
    expect(body.system).toEqual([{ text: expect.stringContaining('JSON object') }]);
    expect(body.outputConfig).toBeUndefined();
  });

  test('where the model holds to schemas is a format, without what is refused', () => {
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

describe('tools', () => {
  test.each([
    [null, undefined],
    ['auto', undefined],
    ['required', { any: {} }],
    [{ name: 'weather' }, { tool: { name: 'weather' } }],
  ] as const)('with the choice %p', (toolChoice, written) => {
    const { body } = write({ tools: [tool], toolChoice });
    expect(body.toolConfig).toEqual({
      tools: [{ toolSpec }],
      ...(written && { toolChoice: written }),
    });
  });

  test('that must not be called are left out, but not from a conversation with calls', () => {
    const without = write({ tools: [tool], toolChoice: 'none' });
    expect([without.body.toolConfig, without.dropped]).toEqual([undefined, []]);
    const within = write({ tools: [tool], toolChoice: 'none', turns: called });
    expect(within.body.toolConfig).toEqual({ tools: [{ toolSpec }] });
    expect(within.dropped).toEqual(['tool_choice']);
  });

  test('that were called and are no longer there are declared all the same', () => {
    const { body } = write({ turns: called });
    expect(body.toolConfig).toEqual({
      tools: [{ toolSpec: { name: 'weather', inputSchema: { json: { type: 'object' } } } }],
    });
  });

  test('have schemas without an address, which Nova refuses', () => {
    const named = { $schema: 'http://json-schema.org/draft-07/schema#', $id: 'https://a.example/' };
    const tools = [{ ...tool, parameters: { ...named, ...tool.parameters } }];
    expect(write({ tools }).body.toolConfig?.tools).toEqual([{ toolSpec }]);
  });

  const native = { quirks: { json_schema: 'native' } } as const;

  test('are strict where the model holds to schemas, in the words that it takes there', () => {
    const city = { type: 'string', minLength: 1 };
    const parameters = { type: 'object', properties: { city } };
    const tools = [{ ...tool, parameters, strict: true }];
    const unable = write({ tools });
    const loose = { ...toolSpec, inputSchema: { json: parameters } };
    expect(unable.body.toolConfig?.tools).toEqual([{ toolSpec: loose }]);
    expect(unable.dropped).toEqual(['strict']);
    const json = { ...tool.parameters, additionalProperties: false };
    const held = { ...toolSpec, inputSchema: { json }, strict: true };
    const able = write({ tools }, native);
    expect(able.body.toolConfig?.tools).toEqual([{ toolSpec: held }]);
    expect(able.dropped).toEqual([]);
  });

  test('are not strict beyond what a model can be held to', () => {
    const tools = Array.from({ length: 21 }, (_, at) => ({
      ...tool,
      name: `t${at}`,
      strict: true,
    }));
    const { body, dropped } = write({ tools }, native);
    expect(body.toolConfig?.tools[0]).toEqual({ toolSpec: { ...toolSpec, name: 't0' } });
    expect(dropped).toEqual(['strict']);
  });

  test('are cached up to the marked one, for as long as it says', () => {
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

test('a wish to cache the whole prompt is told as left out', () => {
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
const text = (said: string) => ({ kind: 'text', text: said }) as const;
const call = (id: string) => ({ kind: 'tool_call', id, name: 'f', arguments: '{"a":1}' }) as const;
const result = (callId: string, said: string, isError = false) =>
  ({ kind: 'tool_result', callId, parts: [text(said)], isError }) as const;
const marked = { cacheControl: { type: 'ephemeral' } };
const cachePoint = { cachePoint: { type: 'default' } };

describe('turns', () => {
  test('alternate, and a user begins', () => {
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

  test('of white space only are left out, but at least one turn is sent', () => {
    const { messages, system } = writeTurn([
      { role: 'system', parts: [text('Be brief.'), text('  ')] },
      user(text('\n')),
    ]);
    expect(system).toEqual([{ text: 'Be brief.' }]);
    expect(messages).toEqual([{ role: 'user', content: [{ text: 'Continue.' }] }]);
  });

  test('that end with the assistant go on from there, without a space at the end', () => {
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

  test('keep all results of one turn in one message, in front', () => {
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

  test('keep a result with nothing in it, which some models refuse', () => {
    const image = { kind: 'image', url: 'data:image/gif;base64,R0lG' } as const;
    const { messages } = writeTurn([
      userTurn('Go'),
      assistant(call('c1'), call('c2'), call('c3')),
      user(result('c1', ' \n'), { ...result('c2', ''), parts: [] }),
      user({ ...result('c3', ''), parts: [text(''), image] }),
    ]);
    const given = messages.at(-1)?.content.map(({ toolResult }) => toolResult);
    expect(given).toMatchObject([
      { toolUseId: 'c1', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c2', content: [{ text: expect.stringMatching(/\w/) }] },
      { toolUseId: 'c3', content: [{ image: { format: 'gif' } }] },
    ]);
  });

  test('of ten thousand messages of one side are one', () => {
    const { messages } = writeTurn(Array.from({ length: 10_000 }, (_, at) => userTurn(`w${at}`)));
    expect(messages).toHaveLength(1);
    expect(messages[0]?.content).toHaveLength(10_000);
  });
});

describe('parts', () => {
  test('are cached up to the marked one', () => {
    const { messages, system } = writeTurn([
      { role: 'system', parts: [{ ...text('Rules'), ...marked }] },
      user({ ...text('Book'), ...marked }, text('Question')),
    ]);
    expect(system).toEqual([{ text: 'Rules' }, cachePoint]);
    expect(messages[0]?.content).toEqual([{ text: 'Book' }, cachePoint, { text: 'Question' }]);
  });

  test('have no mark behind a document that is no PDF, where Bedrock refuses it', () => {
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

  test('of pictures are bytes', () => {
    const shown = (url: string) => ({ kind: 'image', url }) as const;
    const inside = { ...result('c1', ' '), parts: [shown('data:image/gif;base64,R0lG')] };
    const { messages } = writeTurn([
      user(shown('data:image/jpg;base64,/9j/'), shown('data:image/webp;base64,UklG')),
      assistant(call('c1')),
      user(inside),
    ]);
    const image = (format: string, bytes: string) => ({ image: { format, source: { bytes } } });
    expect(messages[0]?.content).toEqual([image('jpeg', '/9j/'), image('webp', 'UklG')]);
    expect(messages[2]?.content).toEqual([
      { toolResult: { toolUseId: 'c1', content: [image('gif', 'R0lG')] } },
    ]);
  });

  test.each(['data:image/tiff;base64,SUkq', 'https://a.example/x', 'data:,%'])(
    'with the picture %s are refused',
    (url) => {
      expect(() => writeTurn([user({ kind: 'image', url })])).toThrow('PNG, JPEG, GIF, and WebP');
    },
  );

  test('of sound are dropped and told', () => {
    const { messages, dropped } = writeTurn([
      user({ kind: 'audio', data: 'UklG', format: 'wav' }, text('What?')),
    ]);
    expect(messages[0]?.content).toEqual([{ text: 'What?' }]);
    expect(dropped).toEqual(['input_audio']);
  });

  test.each([
    ['Bedrock', {}, /^[\w-]{1,64}$/],
    ['Mistral', { tool_call_ids: 'nine_characters' }, /^[A-Za-z0-9]{9}$/],
  ] as const)('of calls have ids that %s takes, the same for the result', (_, quirks, pattern) => {
    const [odd, long] = ['call.1:ü', 'x'.repeat(65)];
    const turns = [
      userTurn('Go'),
      assistant(call(odd), call(long)),
      user(result(odd, 'a'), result(long, 'b')),
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
  });
});

describe('thoughts', () => {
  const parts: AssistantPart[] = [
    { kind: 'reasoning', text: 'Hm.', signature: 'sig' },
    { kind: 'reasoning', text: 'Unsigned.' },
    { kind: 'reasoning', text: 'Of another.', signature: 'gemini:sig' },
    { kind: 'reasoning', text: '', redacted: 'EtkE+/=' },
    text('Yes.'),
  ];
  const turns = [userTurn('A'), assistant(...parts), userTurn('B')];

  test('go back with their proofs, and only those that have one', () => {
    expect(writeTurn(turns).messages[1]?.content).toEqual([
      { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'sig' } } },
      { reasoningContent: { redactedContent: Buffer.from('EtkE+/=').toString('base64') } },
      { text: 'Yes.' },
    ]);
  });

  test.each([null, 'effort'] as const)('are not sent to models that sign none: %p', (thinking) => {
    expect(writeTurn(turns, { thinking }).messages[1]?.content).toEqual([{ text: 'Yes.' }]);
  });
});

describe('documents', () => {
  const document = (source: DocumentPart['source'], name?: string): DocumentPart => ({
    kind: 'document',
    source,
    name,
  });
  const pdf = { url: 'data:application/pdf;base64,JVBE' };
  const written = (format: string, name: string, bytes: string) => ({
    document: { format, name, source: { bytes } },
  });

  test('have names that Bedrock takes, each its own', () => {
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

  test('with nothing in them are left out', () => {
    const { messages } = writeTurn([user(document({ text: ' \n' }, 'a'), text('Well?'))]);
    expect(messages[0]?.content).toEqual([{ text: 'Well?' }]);
  });

  test('do not come without a word', () => {
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
  ])('that cannot be sent are refused: %p', (source, message) => {
    expect(() => writeTurn([user(document(source))])).toThrow(message);
  });
});

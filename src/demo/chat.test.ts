import { afterAll, describe, expect, test } from 'bun:test';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

function post(body: object): Promise<Response> {
  return fetch(`${demo.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
}

/** The fields of a completion that most tests use. */
interface Completion {
  choices: [{ message: Message; finish_reason: string }];
  usage: Record<string, number> & { completion_tokens_details: { reasoning_tokens: number } };
}
interface Message {
  content: string;
  reasoning_content?: string;
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
}

async function complete(body: object): Promise<Completion> {
  const response = await post(body);
  expect(response.status).toBe(200);
  return readJson<Completion>(response);
}

async function readEvents(body: object): Promise<string[]> {
  const response = await post({ ...body, stream: true });
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const text = await response.text();
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.replace(/^data: /, ''));
}

interface Delta {
  role?: string;
  content?: string | null;
  reasoning_content?: string;
  tool_calls?: {
    index: number;
    id?: string;
    function: { name?: string; arguments: string };
  }[];
}
interface Chunk {
  id: string;
  object: string;
  choices: { index: number; delta: Delta; finish_reason: string | null }[];
  usage?: object | null;
}

async function readChunks(body: object): Promise<Chunk[]> {
  const events = await readEvents(body);
  expect(events.at(-1)).toBe('[DONE]');
  return events.slice(0, -1).map((event) => JSON.parse(event));
}

const hello = { model: 'demo-chat', messages: [{ role: 'user', content: 'How are you?' }] };

describe('demo chat text', () => {
  test('says that it is a demo and repeats the question', async () => {
    const { choices } = await complete(hello);
    expect(choices[0].message.content).toContain('demo');
    expect(choices[0].message.content).toContain('“How are you?”');
    expect(choices[0].message).not.toHaveProperty('tool_calls');
    expect(choices[0].finish_reason).toBe('stop');
  });

  test('repeats up to 200 characters of a long question', async () => {
    const { choices } = await complete({
      messages: [{ role: 'user', content: '🦊'.repeat(5_000) }],
    });
    expect(choices[0].message.content).toContain(`“${'🦊'.repeat(200)}…”`);
  });

  test('counts 4 bytes as a token: 12 and 145 bytes are 3 and 37 tokens', async () => {
    const { choices, usage } = await complete(hello);
    expect(Buffer.byteLength(choices[0].message.content)).toBe(145);
    const counted: object = usage;
    expect(counted).toEqual({
      prompt_tokens: 3,
      completion_tokens: 37,
      total_tokens: 40,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
  });

  test('gives identical requests identical answers', async () => {
    const [first, second] = [await complete(hello), await complete(hello)];
    expect({ ...second, created: 0 } as object).toEqual({ ...first, created: 0 });
  });

  test('ends at max_tokens, and max_completion_tokens overrides it', async () => {
    const short = await complete({ ...hello, max_tokens: 3 });
    expect(short.choices[0]).toMatchObject({
      message: { content: 'Hello from t' },
      finish_reason: 'length',
    });
    expect(short.usage.completion_tokens).toBe(3);
    const shorter = await complete({ ...hello, max_tokens: 3, max_completion_tokens: 1 });
    expect(shorter.choices[0].message.content).toBe('Hell');
  });

  test('repeats the answer for n choices, streaming or not, and counts each', async () => {
    const { choices, usage } = await complete({ ...hello, max_tokens: 3, n: 2 });
    const choice = { message: { content: 'Hello from t' }, finish_reason: 'length' };
    expect(choices as object[]).toMatchObject([
      { index: 0, ...choice },
      { index: 1, ...choice },
    ]);
    expect([usage.prompt_tokens, usage.completion_tokens]).toEqual([3, 6]);
    const texts = ['', ''];
    const ends: unknown[] = [];
    for (const chunk of await readChunks({ ...hello, max_tokens: 3, n: 2 })) {
      for (const { index, delta, finish_reason: end } of chunk.choices) {
        texts[index] += delta.content ?? '';
        if (end !== null) ends.push([index, end]);
      }
    }
    expect(texts).toEqual(['Hello from t', 'Hello from t']);
    expect(ends).toEqual([
      [0, 'length'],
      [1, 'length'],
    ]);
  });

  test('ends the answer before the first stop sequence', async () => {
    const { choices } = await complete({ ...hello, stop: ['nowhere', 'demo', 'Tollgate'] });
    expect(choices[0]).toMatchObject({
      message: { content: 'Hello from the ' },
      finish_reason: 'stop',
    });
  });

  test('adds reasoning if an effort is requested and counts it as output', async () => {
    const { choices, usage } = await complete({ ...hello, reasoning_effort: 'high' });
    const reasoning = choices[0].message.reasoning_content ?? '';
    expect(reasoning).toContain('"high"');
    const { reasoning_tokens: reasoningTokens } = usage.completion_tokens_details;
    expect(reasoningTokens).toBeGreaterThan(0);
    expect(usage.completion_tokens).toBe(37 + reasoningTokens);
    const without = await complete({ ...hello, reasoning_effort: 'none' });
    expect(without.choices[0].message).not.toHaveProperty('reasoning_content');
  });
});

describe('demo chat streams', () => {
  test('send role, text, finish reason, usage, and [DONE]', async () => {
    const reply = await complete(hello);
    const chunks = await readChunks({ ...hello, stream_options: { include_usage: true } });
    const deltas = chunks.map((chunk) => chunk.choices[0]?.delta);
    expect(deltas[0]).toMatchObject({ role: 'assistant', content: '' });
    expect(deltas[1]).toEqual({ content: 'Hello ' });
    expect(deltas.at(-2)).toEqual({});
    const text = deltas.map((delta) => delta?.content ?? '').join('');
    expect(text).toBe(reply.choices[0].message.content);
    expect(chunks.map((chunk) => chunk.choices[0]?.finish_reason)).toEqual([
      ...Array(chunks.length - 2).fill(null),
      'stop',
      undefined,
    ]);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: reply.usage });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
    expect(new Set(chunks.map((chunk) => `${chunk.id} ${chunk.object}`)).size).toBe(1);
  });

  test('send no usage unless requested', async () => {
    const chunks = await readChunks(hello);
    expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
  });

  test('send the reasoning before the answer', async () => {
    const chunks = await readChunks({ ...hello, reasoning_effort: 'low' });
    const kinds = chunks.flatMap((chunk) => Object.keys(chunk.choices[0]?.delta ?? {}));
    expect(kinds.lastIndexOf('reasoning_content')).toBeLessThan(kinds.indexOf('content', 3));
    expect(kinds).toContain('reasoning_content');
  });

  test('pause between chunks if a delay is requested', async () => {
    const started = performance.now();
    const events = await readEvents({ ...hello, max_tokens: 2, demo_delay_ms: 30 });
    expect(performance.now() - started).toBeGreaterThan((events.length - 1) * 30 - 5);
  });
});

function tool(name: string, parameters?: object) {
  return { type: 'function', function: { name, parameters } };
}
const cityTool = tool('get_weather', {
  type: 'object',
  properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'kelvin'] } },
  required: ['city', 'unit'],
});
const tools = [cityTool, tool('get_time'), tool('get')];

function ask(content: string, more: object = {}) {
  return { messages: [{ role: 'user', content }], tools, ...more };
}

async function calledTools(body: object): Promise<string[]> {
  const { choices } = await complete(body);
  return (choices[0].message.tool_calls ?? []).map((call) => call.function.name);
}

describe('demo tool calls', () => {
  test('calls a mentioned tool with arguments that match its schema', async () => {
    const { choices } = await complete(ask('Please use Get_Weather for me'));
    const [{ message, finish_reason: finishReason }] = choices;
    expect(finishReason).toBe('tool_calls');
    expect(message.content).toBeNull();
    expect(message.tool_calls).toHaveLength(1);
    expect(message.tool_calls?.[0]).toMatchObject({
      type: 'function',
      function: { name: 'get_weather' },
    });
    expect(JSON.parse(message.tool_calls?.[0]?.function.arguments ?? '')).toEqual({
      city: 'demo city',
      unit: 'celsius',
    });
  });

  test.each(['get_weather', 'getWeather', 'weather'])(
    'calls %s if its last word is mentioned',
    async (name) => {
      const question = { messages: [{ role: 'user', content: 'What is the weather in Bern?' }] };
      expect(await calledTools({ ...question, tools: [tool('run_is'), tool(name)] })).toEqual([
        name,
      ]);
    },
  );

  test('ignores a tool name inside another word', async () => {
    expect(await calledTools(ask('do not forget get_weather_now'))).toEqual([]);
  });

  test('calls several mentioned tools at once unless parallel calls are disabled', async () => {
    const both = 'get_time, then get_weather';
    expect(await calledTools(ask(both))).toEqual(['get_weather', 'get_time']);
    expect(await calledTools(ask(both, { parallel_tool_calls: false }))).toEqual(['get_weather']);
  });

  test('follows tool_choice', async () => {
    const named = { type: 'function', function: { name: 'get_time' } };
    expect(await calledTools(ask('hi', { tool_choice: 'required' }))).toEqual(['get_weather']);
    expect(await calledTools(ask('hi', { tool_choice: named }))).toEqual(['get_time']);
    expect(await calledTools(ask('get_time', { tool_choice: 'none' }))).toEqual([]);
    expect(await calledTools(ask('hi'))).toEqual([]);
  });

  test('prefers tools that were not called yet for forced calls', async () => {
    const after = (...names: string[]) => ({
      messages: [
        { role: 'user', content: 'get_weather' },
        ...names.flatMap((name) => [
          { role: 'assistant', tool_calls: [{ id: name, type: 'function', function: { name } }] },
          { role: 'tool', tool_call_id: name, content: 'done' },
        ]),
      ],
      tools,
      tool_choice: 'required',
    });
    expect(await calledTools(after())).toEqual(['get_weather']);
    expect(await calledTools(after('get_weather'))).toEqual(['get_time']);
    expect(await calledTools(after('get_time', 'get_weather'))).toEqual(['get']);
    expect(await calledTools(after('get', 'get_time', 'get_weather'))).toEqual(['get_weather']);
  });

  test('streams parallel calls with ascending indexes and arguments that join to JSON', async () => {
    const chunks = await readChunks(ask('get_weather and get_time'));
    const parts = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    const indexes = parts.map((part) => part.index);
    expect(indexes).toEqual([...indexes].sort());
    const heads = parts.filter((part) => part.id !== undefined);
    expect(heads.map((head) => [head.index, head.function.name])).toEqual([
      [0, 'get_weather'],
      [1, 'get_time'],
    ]);
    expect(new Set(heads.map((head) => head.id)).size).toBe(2);
    const joined = [0, 1].map((index) =>
      parts
        .filter((part) => part.index === index)
        .map((part) => part.function.arguments)
        .join(''),
    );
    expect(joined.map((text) => JSON.parse(text))).toEqual([
      { city: 'demo city', unit: 'celsius' },
      {},
    ]);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('tool_calls');
  });

  test('truncates a call at the token limit', async () => {
    const { choices } = await complete(ask('get_weather', { max_tokens: 5 }));
    expect(choices[0].finish_reason).toBe('length');
    expect(choices[0].message.tool_calls?.[0]?.function.arguments).toBe('{"city":');
  });

  test('quotes tool results', async () => {
    const { choices } = await complete({
      tools,
      messages: [
        { role: 'user', content: 'get_weather' },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'tool', tool_call_id: 'a', content: '21 degrees' },
        { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'noon' }] },
      ],
    });
    expect(choices[0].message.content).toContain('“21 degrees” and “noon”');
  });
});

describe('demo JSON mode', () => {
  test('returns an object with the question for json_object', async () => {
    const { choices } = await complete({ ...hello, response_format: { type: 'json_object' } });
    expect(JSON.parse(choices[0].message.content)).toMatchObject({
      demo: true,
      question: 'How are you?',
    });
  });

  test('returns an object that matches the schema for json_schema', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 18 } },
      required: ['name', 'age'],
    };
    const { choices } = await complete({
      ...hello,
      response_format: { type: 'json_schema', json_schema: { name: 'person', schema } },
    });
    expect(JSON.parse(choices[0].message.content)).toEqual({ name: 'demo name', age: 18 });
  });
});

test('chat answers with the number and sizes of the images', async () => {
  const pixel =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk' +
    '+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const images = [
    `data:image/png;base64,${pixel}`,
    'data:image/png;base64,AAAA',
    'https://example.com/cat.png',
  ];
  const { choices, usage } = await complete({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look!' },
          ...images.map((url) => ({ type: 'image_url', image_url: { url } })),
        ],
      },
    ],
  });
  expect(choices[0].message.content).toEndWith(
    'I received 3 images: PNG of 1×1 pixels; unreadable; a URL, not fetched.',
  );
  expect(usage.prompt_tokens).toBe(2 + 3 * 85);
});

test('errors for invalid fields name the field', async () => {
  const cases: [object, string][] = [
    [{}, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: ['hi'] }, 'messages[0]'],
    [{ messages: [{ content: 'hi' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user', content: 7 }] }, 'messages[0].content'],
    [{ ...hello, model: 7 }, 'model'],
    [{ ...hello, max_tokens: 0 }, 'max_tokens'],
    [{ ...hello, max_completion_tokens: 1.5 }, 'max_completion_tokens'],
    [{ ...hello, stop: [''] }, 'stop'],
    [{ ...hello, stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
    [{ ...hello, n: 17 }, 'n'],
    [{ ...hello, stream: 'maybe' }, 'stream'],
    [{ ...hello, tools: {} }, 'tools'],
    [{ ...hello, tools: [{ type: 'function' }] }, 'tools[0].function.name'],
    [ask('hi', { tool_choice: { function: { name: 'unknown' } } }), 'tool_choice'],
    [{ ...hello, response_format: { type: 'xml' } }, 'response_format.type'],
    [{ ...hello, response_format: { type: 'json_schema' } }, 'response_format.json_schema.schema'],
    [{ ...hello, demo_delay_ms: 2_001 }, 'demo_delay_ms'],
  ];
  for (const [body, param] of cases) {
    const response = await post(body);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});

import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import type { Target } from '../../dialect.ts';
import { readMessagesRequest } from '../client/request.ts';
import { passMessages, systemOf, withoutHoistedInstructions } from './request.ts';

const version = { version: '2023-06-01', betas: '' };

function pass(fields: object, to: Partial<Target> = {}, betas = '') {
  const body = {
    model: 'a/b',
    max_tokens: 90,
    messages: [{ role: 'user', content: 'Hi' }],
    ...fields,
  };
  const text = JSON.stringify(body);
  const bytes = new TextEncoder().encode(text);
  const request = readMessagesRequest(JSON.parse(text), { text, bytes });
  const passed = passMessages(request, { ...version, betas }, makeTarget(to));
  return { ...passed, body: JSON.parse(String(passed.body)) as Record<string, unknown> };
}

test('passMessages drops empty stop sequences, and the list if none remain', () => {
  const stopsOf = (stop_sequences: string[]) => pass({ stop_sequences }).body.stop_sequences;
  expect(stopsOf(['', 'END'])).toEqual(['END']);
  expect(stopsOf([''])).toBeUndefined();
  expect(stopsOf([])).toEqual([]);
});

test('passMessages keeps max_tokens: 0, and otherwise sends the lowest limit', () => {
  expect(pass({ max_tokens: 0 }, { outputTokensMax: 1 }).body.max_tokens).toBe(0);
  expect(pass({ max_tokens: 50 }, { outputTokensMax: 20 }).body.max_tokens).toBe(20);
});

const look = { name: 'look', input_schema: { type: 'object' } };

const answer = (...content: object[]) => ({
  messages: [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content },
    { role: 'user', content: 'and' },
  ],
});
const contentOf = ({ body }: ReturnType<typeof pass>) =>
  (body.messages as { content: unknown }[])[1]?.content;

test.each([
  ['an empty string', '', undefined],
  ['a blank string', ' \n', undefined],
  ['an empty block', [{ type: 'text', text: '' }], undefined],
  [
    'a blank block and another one',
    [
      { type: 'text', text: ' ' },
      { type: 'text', text: 'Be kind.' },
    ],
    [{ type: 'text', text: 'Be kind.' }],
  ],
  ['text', 'Be kind.', 'Be kind.'],
])('passMessages drops blank texts from a system field with %s', (_, system, expected) => {
  expect(pass({ system }).body.system).toEqual(expected);
});

test('passMessages drops fields whose names differ from known ones only in case, and forwards unknown fields', () => {
  const { body } = pass({ Model: 'expensive', Max_Tokens: 9_000, Novelty: 1 });
  const messages = [{ role: 'user', content: 'Hi' }];
  expect(body).toEqual({ model: 'chat-large', max_tokens: 90, messages, Novelty: 1 });
});

describe('passMessages with options that cost extra', () => {
  const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'claude-opus-5' };

  test("drops them for the operator's account", () => {
    const options = { speed: 'fast', service_tier: 'priority', tools: [advisor, look] };
    const { body, dropped } = pass(options);
    expect([body.speed, body.service_tier, body.tools]).toEqual([undefined, undefined, [look]]);
    expect(dropped).toEqual(['service_tier', 'speed', 'tools[0]']);
    const only = pass({ tools: [advisor], tool_choice: { type: 'auto' } }).body;
    expect([only.tools, only.tool_choice]).toEqual([undefined, undefined]);
  });

  test("sends them for the tenant's own account", () => {
    const options = { speed: 'fast', service_tier: 'priority', tools: [advisor, look] };
    const { body, dropped } = pass(options, { isOwnAccount: true });
    expect([body, dropped]).toMatchObject([options, []]);
  });

  test('reports an option once if a quirk drops it too', () => {
    const quirks = { drop_params: ['service_tier'] };
    expect(pass({ service_tier: 'priority' }, { quirks }).dropped).toEqual(['service_tier']);
  });

  test('removes dropped tools from allowed_callers of other tools', () => {
    const codeExecution = { type: 'code_execution_20250825', name: 'code_execution' };
    const { type } = codeExecution;
    const callableBy = (...callers: string[]) => ({ ...look, allowed_callers: callers });
    const tools = [callableBy(type), codeExecution, callableBy('direct', type), callableBy()];
    const { body, dropped } = pass({ tools });
    expect(body.tools).toEqual([look, callableBy('direct'), callableBy()]);
    expect(dropped).toEqual(['tools[1]', 'tools[0].allowed_callers', 'tools[2].allowed_callers']);
    const own = pass({ tools }, { isOwnAccount: true });
    expect([own.body.tools, own.dropped]).toEqual([tools, []]);
  });

  test("doesn't check every tool again for each of many callers", () => {
    let reads = 0;
    const codeExecution = {
      name: 'code_execution',
      get type() {
        reads += 1;
        return 'code_execution_20250825';
      },
    };
    const callable = { ...look, allowed_callers: Array(1_000).fill('direct') };
    const messages = [{ role: 'user', content: 'Hi' }];
    const body = { model: 'a/b', max_tokens: 90, messages, tools: [codeExecution, callable] };
    const source = { text: '{}', bytes: Buffer.from('{}') };
    expect(passMessages(readMessagesRequest(body, source), version, makeTarget()).dropped).toEqual([
      'tools[0]',
    ]);
    expect(reads).toBeLessThan(100);
  });

  test('sends standard service options', () => {
    const options = { speed: 'standard', service_tier: 'standard_only', inference_geo: 'us' };
    const { body, dropped } = pass(options);
    expect([body, dropped]).toMatchObject([options, []]);
  });
});

describe('passMessages with content from other providers', () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };

  test.each(['', 'gemini:abc', 'responses:rs_1:abc', undefined])(
    'drops thinking with the signature %p, and the thinking budget',
    (signature) => {
      const block = { type: 'thinking', thinking: 'hm', signature };
      const thinking = { type: 'enabled', budget_tokens: 1_024 };
      const passed = pass({ ...answer(block, call), thinking });
      expect(contentOf(passed)).toEqual([call]);
      expect([passed.body.thinking, passed.dropped]).toEqual([undefined, ['thinking']]);
    },
  );

  test("keeps Anthropic's own thinking, even without text", () => {
    const blocks = [
      { type: 'thinking', thinking: '', signature: 'EqYCCpMB' },
      { type: 'redacted_thinking', data: 'EqYC' },
    ];
    const thinking = { type: 'enabled', budget_tokens: 1_024 };
    const passed = pass({ ...answer(...blocks, call), thinking });
    expect(contentOf(passed)).toEqual([...blocks, call]);
    expect([passed.body.thinking, passed.dropped]).toEqual([thinking, []]);
  });

  test('drops blank texts, and answers that have nothing else', () => {
    expect(contentOf(pass(answer({ type: 'text', text: '\n' }, call)))).toEqual([call]);
    expect(pass(answer({ type: 'text', text: '' })).body.messages).toHaveLength(2);
  });

  test('replaces call IDs that Anthropic rejects', () => {
    const invalid = { ...call, id: 'functions.look:0' };
    const result = { type: 'tool_result', tool_use_id: 'functions.look:0', content: 'x' };
    const { body } = pass({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [invalid] },
        { role: 'user', content: [result] },
      ],
    });
    const ids = [...JSON.stringify(body).matchAll(/"(?:id|tool_use_id)":"([\w-]+)"/g)];
    expect(ids.map((match) => match[1])).toEqual([ids[0]?.[1], ids[0]?.[1]]);
    expect(ids).toHaveLength(2);
  });

  test('replaces image URLs with fetched images, even in tool results and documents', () => {
    const url = 'https://a.example/b.png';
    const image = { type: 'image', source: { type: 'url', url } };
    const result = { type: 'tool_result', tool_use_id: 'a', content: [image] };
    const images = new Map([[url, 'data:image/png;base64,aGk=']]);
    const document = { type: 'document', source: { type: 'content', content: [image] } };
    const content = [result, image, document];
    const { body } = pass({ messages: [{ role: 'user', content }] }, { images });
    expect(JSON.stringify(body)).not.toContain(url);
    expect(JSON.stringify(body).match(/"data":"aGk="/g)).toHaveLength(3);
  });
});

test.each([
  [undefined, undefined, 'effort-2025-11-24,context-1m-2025-08-07', []],
  ['vertex', ['effort-2025-11-24'], 'context-1m-2025-08-07', ['anthropic-beta']],
  [undefined, ['effort-2025-11-24'], 'context-1m-2025-08-07', ['anthropic-beta']],
  ['vertex', ['*'], undefined, ['anthropic-beta']],
  ['vertex', ['another'], 'effort-2025-11-24,context-1m-2025-08-07', []],
] as const)('passMessages to %p without the betas %j sends %p', (host, refused, sent, dropped) => {
  const quirks = {
    ...(host ? { hosted_by: host } : {}),
    ...(refused ? { drop_betas: [...refused] } : {}),
  };
  const passed = pass({}, { quirks }, 'effort-2025-11-24,context-1m-2025-08-07');
  expect(passed.headers?.['anthropic-beta']).toBe(sent);
  expect(passed.dropped).toEqual([...dropped]);
});

describe('passMessages adds to anthropic-beta', () => {
  const own = { isOwnAccount: true };
  const betasOf = (fields: object, betas = '', to: Partial<Target> = own) =>
    pass(fields, to, betas).headers?.['anthropic-beta'];
  const screen = { name: 'computer', display_width_px: 9, display_height_px: 9 };
  const mcp = { type: 'url', url: 'https://mcp.example.com', name: 'm' };
  const file = { type: 'document', source: { type: 'file', file_id: 'file_1' } };
  const clear = { edits: [{ type: 'clear_tool_uses_20250919' }] };

  test.each([
    [{ context_management: clear }, 'context-management-2025-06-27'],
    [{ context_management: { edits: [{ type: 'compact_20260112' }] } }, 'compact-2026-01-12'],
    [{ tools: [{ type: 'computer_20250124', ...screen }] }, 'computer-use-2025-01-24'],
    [{ tools: [{ type: 'computer_20251124', ...screen }] }, 'computer-use-2025-11-24'],
    [{ mcp_servers: [mcp] }, 'mcp-client-2025-04-04'],
    [
      { mcp_servers: [mcp], tools: [{ type: 'mcp_toolset', mcp_server_name: 'm' }] },
      'mcp-client-2025-11-20',
    ],
    [{ messages: [{ role: 'user', content: [file] }] }, 'files-api-2025-04-14'],
    [{ output_config: { task_budget: { type: 'tokens', total: 9 } } }, 'task-budgets-2026-03-13'],
    [{ speed: 'fast' }, 'fast-mode-2026-02-01'],
    [{ tools: [look] }, undefined],
  ])('for %j: %p', (fields, betas) => {
    expect(betasOf(fields)).toBe(betas);
  });

  test("after the client's own, and never another version of one of those", () => {
    const both = { context_management: clear, tools: [{ type: 'computer_20251124', ...screen }] };
    expect(betasOf(both, 'computer-use-2025-01-24')).toBe(
      'computer-use-2025-01-24,context-management-2025-06-27',
    );
  });

  test('nothing for a field that is not sent, or that the provider does not accept', () => {
    expect(betasOf({ speed: 'fast' }, '', {})).toBeUndefined();
    const quirks = { drop_betas: ['context-management-2025-06-27'] };
    const passed = pass({ context_management: clear }, { quirks });
    expect(passed.headers?.['anthropic-beta']).toBeUndefined();
    expect(passed.dropped).toEqual([]);
  });
});

describe('passMessages with instructions among the messages', () => {
  const instruction = { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] };
  const userMessage = { role: 'user', content: 'Hi' };
  const blank = { role: 'system', content: ' ' };
  const fields = { system: 'Be kind.', messages: [userMessage, instruction, blank] };

  test('keeps their position', () => {
    expect(pass(fields).body).toMatchObject(fields);
  });

  test('moves them into system if the model requires it', () => {
    const quirks = { system_messages: 'merge' } as const;
    const texts = [{ type: 'text', text: 'Be kind.' }, ...instruction.content];
    expect(pass(fields, { quirks }).body).toMatchObject({ system: texts, messages: [userMessage] });
    const plain = { system: 'Be kind.', messages: [userMessage] };
    expect(pass(plain, { quirks }).body).toMatchObject(plain);
  });
});

test.each([
  [{}, 90],
  [{ outputTokensMax: 7 }, 7],
  [{ modelOutputTokensMax: 50 }, 50],
  [{ modelOutputTokensMax: 50, outputTokensMax: 60 }, 50],
])('passMessages limits max_tokens for the target %j to %i', (to, maxTokens) => {
  expect(pass({}, to).body.max_tokens).toBe(maxTokens);
});

test("passMessages drops citations without Anthropic's index, and the list if none remain", () => {
  const type = 'web_search_result_location';
  const unsupported = {
    type,
    url: 'https://a.example',
    title: 'A',
    cited_text: 'q',
    encrypted_index: '',
  };
  const own = { ...unsupported, encrypted_index: 'Eo8BCioI' };
  const page = { type: 'page_location', document_index: 0, cited_text: 'q' };
  const citedAs = (...citations: object[]) =>
    contentOf(pass(answer({ type: 'text', text: 'It rained.', citations })));
  expect(citedAs(unsupported)).toEqual([{ type: 'text', text: 'It rained.' }]);
  expect(citedAs(unsupported, own, page)).toMatchObject([{ citations: [own, page] }]);
});

test('passMessages lowers a thinking budget to what fits below the lowered output limit', () => {
  const thinking = { type: 'enabled', budget_tokens: 2_000, display: 'omitted' };
  const fields = { thinking, max_tokens: 4_000 };
  expect(pass(fields, { outputTokensMax: 3_000 })).toMatchObject({
    body: { thinking },
    dropped: [],
  });
  const lowered = pass(fields, { outputTokensMax: 2_000 });
  const lowest = { ...thinking, budget_tokens: 1_024 };
  expect([lowered.body.thinking, lowered.dropped]).toEqual([lowest, []]);
  const crowded = pass(fields, { outputTokensMax: 1_024 });
  expect([crowded.body.thinking, crowded.dropped]).toEqual([undefined, ['thinking']]);
});

test('passMessages drops and reports parameters that the model rejects', () => {
  const quirks = { drop_params: ['temperature', 'top_p', 'top_k'] };
  const { body, dropped } = pass({ temperature: 0.5, top_p: null }, { quirks });
  expect([body.temperature, dropped]).toEqual([undefined, ['temperature']]);
});

test.each([
  [{ type: 'tool', name: 'look' }, { type: 'auto' }, ['tool_choice']],
  [
    { type: 'any', disable_parallel_tool_use: true },
    { type: 'auto', disable_parallel_tool_use: true },
    ['tool_choice'],
  ],
  [{ type: 'none' }, { type: 'none' }, []],
  [{ type: 'auto' }, { type: 'auto' }, []],
])(
  'passMessages to a model that rejects forced tools sends the choice %j as %j',
  (choice, sent, reported) => {
    const quirks = { drop_params: ['tool_choice'] };
    const { body, dropped } = pass({ tools: [look], tool_choice: choice }, { quirks });
    expect([body.tool_choice, dropped]).toEqual([sent, reported]);
  },
);

test('passMessages drops the tool choice together with the tools', () => {
  const quirks = { drop_params: ['tool_choice', 'tools'] };
  for (const tool_choice of [{ type: 'auto' }, { type: 'any' }]) {
    const { body } = pass({ tools: [look], tool_choice }, { quirks });
    expect([body.tools, body.tool_choice]).toEqual([undefined, undefined]);
  }
  const { dropped } = pass({ tools: [look], tool_choice: { type: 'none' } }, { quirks });
  expect(dropped).toEqual(['tools']);
});

test('passMessages drops known fields that are null, and keeps unknown fields', () => {
  const unset = { system: null, tools: null, top_k: null, metadata: null, models: null };
  const { model: _, max_tokens: __, messages: ___, ...rest } = pass({ ...unset, new: null }).body;
  expect(rest).toEqual({ new: null });
});

test('passMessages drops and reports generated images', () => {
  const content = { type: 'text', text: 'Here.' };
  const source = { type: 'base64', media_type: 'image/png', data: 'aGk=' };
  const image = { type: 'image', source };
  const withText = pass(answer(content, image));
  expect([contentOf(withText), withText.dropped]).toEqual([[content], ['messages.image']]);
  const only = pass(answer(image));
  expect(only.body.messages).toHaveLength(2);
  const fromUser = pass({ messages: [{ role: 'user', content: [image] }] });
  expect(fromUser.body.messages).toEqual([{ role: 'user', content: [image] }]);
  expect(fromUser.dropped).toEqual([]);
});

test('passMessages sends the effort only to models that support effort levels, and the format to all models', () => {
  const format = { type: 'json_schema', schema: { type: 'object' } };
  const configAt = (thinking: Target['thinking'], config: object) => {
    const { body, dropped } = pass({ output_config: config }, { thinking });
    return [body.output_config, dropped];
  };
  const both = { effort: 'high', format };
  for (const thinking of ['adaptive', 'effort', null] as const) {
    expect(configAt(thinking, both)).toEqual([both, []]);
  }
  expect(configAt('budget', both)).toEqual([{ format }, ['output_config.effort']]);
  expect(configAt('budget', { effort: 'low' })).toEqual([undefined, ['output_config.effort']]);
  expect(configAt('budget', { format })).toEqual([{ format }, []]);
  // Opus 4.5 has a thinking budget and also accepts effort levels.
  const byQuirk = { thinking: 'budget', quirks: { efforts: { high: 'high' } } } as const;
  const byName = { thinking: 'budget', upstreamModel: 'claude-opus-4-5@20251101' } as const;
  for (const target of [byQuirk, byName]) {
    expect(pass({ output_config: both }, target).body.output_config).toEqual(both);
  }
  const quirks = { drop_params: ['output_config'] };
  const { body, dropped } = pass({ output_config: both }, { thinking: 'budget', quirks });
  expect([body.output_config, dropped]).toEqual([undefined, ['output_config']]);
});

const userMessage = { role: 'user' as const, content: 'Hi' };
const blankInstruction = { role: 'system' as const, content: ' ' };

test('systemOf returns undefined for blank instructions', () => {
  const messages = [userMessage, blankInstruction];
  const remaining = withoutHoistedInstructions(messages, { system_messages: 'merge' });
  expect(remaining).toEqual([userMessage]);
  expect(systemOf({ messages }, remaining)).toBeUndefined();
  expect(systemOf({ messages, system: '' }, remaining)).toBeUndefined();
});

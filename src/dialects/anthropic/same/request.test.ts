import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import type { Target } from '../../dialect.ts';
import { readMessagesRequest } from '../client/request.ts';
import { passMessages, systemOf, withoutHoistedInstructions } from './request.ts';

const version = { version: '2023-06-01', betas: '' };

function pass(given: object, to: Partial<Target> = {}, betas = '') {
  const body = {
    model: 'a/b',
    max_tokens: 90,
    messages: [{ role: 'user', content: 'Hi' }],
    ...given,
  };
  const text = JSON.stringify(body);
  const bytes = new TextEncoder().encode(text);
  const request = readMessagesRequest(JSON.parse(text), { text, bytes });
  const passed = passMessages(request, { ...version, betas }, makeTarget(to));
  return { ...passed, body: JSON.parse(String(passed.body)) as Record<string, unknown> };
}

test('an empty stop sequence is left out, and the list with the last one', () => {
  const stopsOf = (stop_sequences: string[]) => pass({ stop_sequences }).body.stop_sequences;
  expect(stopsOf(['', 'END'])).toEqual(['END']);
  expect(stopsOf([''])).toBeUndefined();
  expect(stopsOf([])).toEqual([]);
});

test('a client that asks for no output gets none, even if it could pay for some', () => {
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
  ['an empty text', '', undefined],
  ['a blank one', ' \n', undefined],
  ['an empty block', [{ type: 'text', text: '' }], undefined],
  [
    'a blank block beside others',
    [
      { type: 'text', text: ' ' },
      { type: 'text', text: 'Be kind.' },
    ],
    [{ type: 'text', text: 'Be kind.' }],
  ],
  ['words', 'Be kind.', 'Be kind.'],
])('instructions that are %s are sent without blank texts', (_, system, expected) => {
  expect(pass({ system }).body.system).toEqual(expected);
});

test('names that an upstream may read as ours stay here, and unknown ones go on', () => {
  const { body } = pass({ Model: 'dear', Max_Tokens: 9_000, Novelty: 1 });
  const messages = [{ role: 'user', content: 'Hi' }];
  expect(body).toEqual({ model: 'chat-large', max_tokens: 90, messages, Novelty: 1 });
});

describe('what the vendor charges for beside the price of a token', () => {
  const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'claude-opus-5' };

  test('is not asked for with the operator’s account', () => {
    const options = { speed: 'fast', service_tier: 'priority', tools: [advisor, look] };
    const { body, dropped } = pass(options);
    expect([body.speed, body.service_tier, body.tools]).toEqual([undefined, undefined, [look]]);
    expect(dropped).toEqual(['service_tier', 'speed', 'tools[0]']);
    const alone = pass({ tools: [advisor], tool_choice: { type: 'auto' } }).body;
    expect([alone.tools, alone.tool_choice]).toEqual([undefined, undefined]);
  });

  test('is asked for with an account of the tenant’s own', () => {
    const options = { speed: 'fast', service_tier: 'priority', tools: [advisor, look] };
    const { body, dropped } = pass(options, { isOwnAccount: true });
    expect([body, dropped]).toMatchObject([options, []]);
  });

  test('is named once where the model knows nothing of it either', () => {
    const quirks = { drop_params: ['service_tier'] };
    expect(pass({ service_tier: 'priority' }, { quirks }).dropped).toEqual(['service_tier']);
  });

  test('is also removed from the callers of other tools', () => {
    const runs = { type: 'code_execution_20250825', name: 'code_execution' };
    const by = (...callers: string[]) => ({ ...look, allowed_callers: callers });
    const tools = [by(runs.type), runs, by('direct', runs.type), by()];
    const { body, dropped } = pass({ tools });
    expect(body.tools).toEqual([look, by('direct'), by()]);
    expect(dropped).toEqual(['tools[1]', 'tools[0].allowed_callers', 'tools[2].allowed_callers']);
    const own = pass({ tools }, { isOwnAccount: true });
    expect([own.body.tools, own.dropped]).toEqual([tools, []]);
  });

  test('is not looked for again with each of many callers', () => {
    let looks = 0;
    const runs = {
      name: 'code_execution',
      get type() {
        looks += 1;
        return 'code_execution_20250825';
      },
    };
    const called = { ...look, allowed_callers: Array(1_000).fill('direct') };
    const messages = [{ role: 'user', content: 'Hi' }];
    const body = { model: 'a/b', max_tokens: 90, messages, tools: [runs, called] };
    const source = { text: '{}', bytes: Buffer.from('{}') };
    expect(passMessages(readMessagesRequest(body, source), version, makeTarget()).dropped).toEqual([
      'tools[0]',
    ]);
    expect(looks).toBeLessThan(100);
  });

  test('does not include the usual service', () => {
    const options = { speed: 'standard', service_tier: 'standard_only', inference_geo: 'us' };
    const { body, dropped } = pass(options);
    expect([body, dropped]).toMatchObject([options, []]);
  });
});

describe('a conversation that began elsewhere', () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };

  test.each(['', 'gemini:abc', 'responses:rs_1:abc', undefined])(
    'loses thoughts with the signature %p, and the budget for more of them',
    (signature) => {
      const thought = { type: 'thinking', thinking: 'hm', signature };
      const thinking = { type: 'enabled', budget_tokens: 1_024 };
      const passed = pass({ ...answer(thought, call), thinking });
      expect(contentOf(passed)).toEqual([call]);
      expect([passed.body.thinking, passed.dropped]).toEqual([undefined, ['thinking']]);
    },
  );

  test("keeps Anthropic's own thoughts, also without words", () => {
    const thoughts = [
      { type: 'thinking', thinking: '', signature: 'EqYCCpMB' },
      { type: 'redacted_thinking', data: 'EqYC' },
    ];
    const thinking = { type: 'enabled', budget_tokens: 1_024 };
    const passed = pass({ ...answer(...thoughts, call), thinking });
    expect(contentOf(passed)).toEqual([...thoughts, call]);
    expect([passed.body.thinking, passed.dropped]).toEqual([thinking, []]);
  });

  test('loses texts without a letter, and an answer that had nothing else', () => {
    expect(contentOf(pass(answer({ type: 'text', text: '\n' }, call)))).toEqual([call]);
    expect(pass(answer({ type: 'text', text: '' })).body.messages).toHaveLength(2);
  });

  test('gets ids that Anthropic takes', () => {
    const odd = { ...call, id: 'functions.look:0' };
    const result = { type: 'tool_result', tool_use_id: 'functions.look:0', content: 'x' };
    const { body } = pass({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [odd] },
        { role: 'user', content: [result] },
      ],
    });
    const ids = [...JSON.stringify(body).matchAll(/"(?:id|tool_use_id)":"([\w-]+)"/g)];
    expect(ids.map((match) => match[1])).toEqual([ids[0]?.[1], ids[0]?.[1]]);
    expect(ids).toHaveLength(2);
  });

  test('has fetched pictures in place of addresses, also in results and documents', () => {
    const url = 'https://a.example/b.png';
    const image = { type: 'image', source: { type: 'url', url } };
    const inside = { type: 'tool_result', tool_use_id: 'a', content: [image] };
    const images = new Map([[url, 'data:image/png;base64,aGk=']]);
    const folder = { type: 'document', source: { type: 'content', content: [image] } };
    const content = [inside, image, folder];
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
] as const)('at %p without the betas %j it is asked for %p', (host, refused, told, dropped) => {
  const quirks = {
    ...(host ? { hosted_by: host } : {}),
    ...(refused ? { drop_betas: [...refused] } : {}),
  };
  const passed = pass({}, { quirks }, 'effort-2025-11-24,context-1m-2025-08-07');
  expect(passed.headers?.['anthropic-beta']).toBe(told);
  expect(passed.dropped).toEqual([...dropped]);
});

describe('instructions among the messages', () => {
  const mid = { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] };
  const said = { role: 'user', content: 'Hi' };
  const given = { system: 'Be kind.', messages: [said, mid, { role: 'system', content: ' ' }] };

  test('stay where they are', () => {
    expect(pass(given).body).toMatchObject(given);
  });

  test('go to the front where the model takes them only there', () => {
    const quirks = { system_messages: 'merge' } as const;
    const texts = [{ type: 'text', text: 'Be kind.' }, ...mid.content];
    expect(pass(given, { quirks }).body).toMatchObject({ system: texts, messages: [said] });
    const alone = { system: 'Be kind.', messages: [said] };
    expect(pass(alone, { quirks }).body).toMatchObject(alone);
  });
});

test.each([
  [{}, 90],
  [{ outputTokensMax: 7 }, 7],
  [{ modelOutputTokensMax: 50 }, 50],
  [{ modelOutputTokensMax: 50, outputTokensMax: 60 }, 50],
])('the limit of the output fits the target %j', (to, most) => {
  expect(pass({}, to).body.max_tokens).toBe(most);
});

test('sources without an index of Anthropic are left out, and the list with the last one', () => {
  const type = 'web_search_result_location';
  const ours = { type, url: 'https://a.example', title: 'A', cited_text: 'q', encrypted_index: '' };
  const theirs = { ...ours, encrypted_index: 'Eo8BCioI' };
  const page = { type: 'page_location', document_index: 0, cited_text: 'q' };
  const citedAs = (...citations: object[]) =>
    contentOf(pass(answer({ type: 'text', text: 'It rained.', citations })));
  expect(citedAs(ours)).toEqual([{ type: 'text', text: 'It rained.' }]);
  expect(citedAs(ours, theirs, page)).toMatchObject([{ citations: [theirs, page] }]);
});

test('a thinking budget is left out if the lowered limit has no room for it', () => {
  const thinking = { type: 'enabled', budget_tokens: 2_000 };
  const given = { thinking, max_tokens: 4_000 };
  expect(pass(given, { outputTokensMax: 3_000 })).toMatchObject({
    body: { thinking },
    dropped: [],
  });
  const crowded = pass(given, { outputTokensMax: 2_000 });
  expect([crowded.body.thinking, crowded.dropped]).toEqual([undefined, ['thinking']]);
});

test('parameters that the model refuses are left out and told', () => {
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
])('a model that cannot be made to call a tool gets the choice %j as %j', (given, sent, told) => {
  const quirks = { drop_params: ['tool_choice'] };
  const { body, dropped } = pass({ tools: [look], tool_choice: given }, { quirks });
  expect([body.tool_choice, dropped]).toEqual([sent, told]);
});

test('a provider that takes no tools gets no choice among them either', () => {
  const quirks = { drop_params: ['tool_choice', 'tools'] };
  for (const tool_choice of [{ type: 'auto' }, { type: 'any' }]) {
    const { body } = pass({ tools: [look], tool_choice }, { quirks });
    expect([body.tools, body.tool_choice]).toEqual([undefined, undefined]);
  }
  const { dropped } = pass({ tools: [look], tool_choice: { type: 'none' } }, { quirks });
  expect(dropped).toEqual(['tools']);
});

test('what the client wrote as null is left out, but for fields that only Anthropic knows', () => {
  const unset = { system: null, tools: null, top_k: null, metadata: null, models: null };
  const { model: _, max_tokens: __, messages: ___, ...rest } = pass({ ...unset, new: null }).body;
  expect(rest).toEqual({ new: null });
});

test('pictures that another provider made stay behind, and are told', () => {
  const content = { type: 'text', text: 'Here.' };
  const source = { type: 'base64', media_type: 'image/png', data: 'aGk=' };
  const picture = { type: 'image', source };
  const beside = pass(answer(content, picture));
  expect([contentOf(beside), beside.dropped]).toEqual([[content], ['messages.image']]);
  const alone = pass(answer(picture));
  expect(alone.body.messages).toHaveLength(2);
  const shown = pass({ messages: [{ role: 'user', content: [picture] }] });
  expect(shown.body.messages).toEqual([{ role: 'user', content: [picture] }]);
  expect(shown.dropped).toEqual([]);
});

test('an effort goes to models that know efforts, and the rest of its field to all', () => {
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
  // Opus 4.5 thinks by budget and knows efforts as well.
  const knowing = { thinking: 'budget', quirks: { efforts: { high: 'high' } } } as const;
  const named = { thinking: 'budget', upstreamModel: 'claude-opus-4-5@20251101' } as const;
  for (const target of [knowing, named]) {
    expect(pass({ output_config: both }, target).body.output_config).toEqual(both);
  }
  const quirks = { drop_params: ['output_config'] };
  const { body, dropped } = pass({ output_config: both }, { thinking: 'budget', quirks });
  expect([body.output_config, dropped]).toEqual([undefined, ['output_config']]);
});

const said = { role: 'user' as const, content: 'Hi' };
const blank = { role: 'system' as const, content: ' ' };

test('instructions without words leave none in front', () => {
  const messages = [said, blank];
  const spoken = withoutHoistedInstructions(messages, { system_messages: 'merge' });
  expect(spoken).toEqual([said]);
  expect(systemOf({ messages }, spoken)).toBeUndefined();
  expect(systemOf({ messages, system: '' }, spoken)).toBeUndefined();
});

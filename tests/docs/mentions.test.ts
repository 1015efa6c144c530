/**
 * What the documents mention is there: files, commands and their options, routes, settings,
 * variables and log events. Moving a file or renaming an option fails until its readers are told.
 */
import { describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { commonOptions } from '../../src/cli/command.ts';
import { topics } from '../../src/cli/topics.ts';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { loadConfig } from '../../src/config/load.ts';
import { configFileSchema } from '../../src/config/schema.ts';
import { isObject } from '../../src/core/json.ts';
import { routesInCode } from '../support/routes-in-code.ts';
import { readTree } from '../support/source-tree.ts';

const tree = readTree(join(import.meta.dir, '../..'));
const paths = [...tree.keys()];
const documents = [...tree.values()].filter(({ path }) => path.endsWith('.md'));
const textOf = (path: string) => tree.get(path)?.text ?? '';

const fence = /^ *```(\w*)\n([\s\S]*?)^ *```$/gm;

interface Mention {
  readonly path: string;
  readonly code: string;
}

/** Code spans of the prose. */
const spansOf = (path: string, text: string): Mention[] =>
  [...text.replace(fence, '').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => ({ path, code }));

const spans = documents.flatMap(({ path, text }) => spansOf(path, text));

const blocksIn = (language: string) =>
  documents.flatMap(({ path, text }) =>
    [...text.matchAll(fence)]
      .filter(([, found]) => found === language)
      .map(([, , code = ''], i) => ({ path, code, name: `${path} ${i + 1}` })),
  );

const told = (found: readonly Mention[]) => found.map(({ path, code }) => `${path}: ${code}`);

describe('files', () => {
  /** Those of other programs, on the reader's machine. */
  const foreign = ['opencode.json', 'settings.json', 'librechat.yaml'];
  const top = 'src|tests|docs|bench|deploy|dashboard|fixtures|examples';
  const isFile = new RegExp(`^(?:[\\w./-]*\\.(?:tsx?|md|json|yaml|sh)|(?:${top})/[\\w./-]*)$`);
  const isThere = (name: string) =>
    paths.some((path) => `/${path}`.endsWith(`/${name}`) || `/${path}`.includes(`/${name}/`));

  test('that a document names exist', () => {
    const named = spans
      .map(({ path, code }) => ({ path, code: code.replace(/^\.\/|\/$/g, '') }))
      .filter(({ code }) => isFile.test(code) && !code.startsWith('/'));
    expect(told(named)).toContain('ARCHITECTURE.md: src/gateway.ts');
    const missing = named.filter(({ code }) => !foreign.includes(code) && !isThere(code));
    expect(told(missing)).toEqual([]);
  });

  test('that a comment or a message names exist', () => {
    const mention = new RegExp(
      `(?<![\\w./-])(?:${top})/[\\w./-]+\\.(?:tsx?|md|json|yaml|sh)\\b`,
      'g',
    );
    // These two make up files to try their own rules on.
    const rules = ['tests/house-rules.test.ts', 'tests/docs/mentions.test.ts'];
    const named = [...tree.values()]
      .filter(({ path }) => !path.startsWith('fixtures/') && !rules.includes(path))
      .flatMap(({ path, text }) => (text.match(mention) ?? []).map((code) => ({ path, code })));
    expect(told(named)).toContain('deploy/build.ts: src/main.ts');
    expect(told(named.filter(({ code }) => !tree.has(code)))).toEqual([]);
  });
});

describe('the README on how good it is', () => {
  const [, behind = ''] = textOf('README.md').split('## How good it is\n');
  const [part = ''] = behind.split(/^## /m);

  test('has the figures of the pages that explain them', () => {
    const figures = part.match(/\d[\d.,]* (?:ms|MB)\b|\d,\d{3},\d{3}/g) ?? [];
    expect(figures.length).toBe(8);
    const pages = `${textOf('docs/deployment.md')}${textOf('docs/dashboard.md')}`;
    const known = new Set(pages.match(/\d[\d.,]* (?:ms|MB)\b|\d,\d{3},\d{3}/g));
    expect(figures.filter((figure) => !known.has(figure))).toEqual([]);
  });

  test('counts the kills as the test does', () => {
    expect(part).toContain('killed thirty times');
    expect(textOf('tests/money/kill.test.ts')).toContain('const kills = 30;');
  });
});

describe('commands', () => {
  const ways = [
    /^npm run tollgate (.*)$/,
    /^(?:docker compose|kubectl) exec [\w-]+ (?:-- )?tollgate (.*)$/,
    /^(?:\.\/dist\/)?tollgate (.*)$/,
  ];
  const shown = [
    ...spans,
    ...documents.flatMap(({ path, text }) =>
      [...text.matchAll(fence)].flatMap(([, , block = '']) =>
        block.split('\n').map((line) => ({ path, code: line.trim() })),
      ),
    ),
    ...topics.flatMap(({ examples = [] }) => examples.map((code) => ({ path: '--help', code }))),
  ];
  const typed = shown.flatMap(({ path, code }) => {
    const words = ways.map((way) => way.exec(code)?.[1]).find((rest) => rest !== undefined);
    const started = /^npm start -- (.*)$/.exec(code)?.[1];
    const rest = started === undefined ? words : `serve ${started}`;
    return rest === undefined || rest === '--' ? [] : [{ path, code, rest }];
  });

  /** What is wrong with a command line, if anything. */
  function fault(rest: string): string | undefined {
    const [first = '', second = ''] = rest.replace(/^-- /, '').split(' ');
    if (first.startsWith('<')) return undefined;
    const topic = topics.find(({ name }) => name === first);
    const command = topic?.commands.find(({ name }) => name === '' || name === second);
    if (!command) return 'no such command';
    const known = { ...command.options, ...commonOptions };
    const options = [...rest.matchAll(/(?<= )--([a-z][\w-]*)/g)].map(([, name = '']) => name);
    return options.find((name) => !(name in known));
  }

  test('exist, with every option that is shown', () => {
    expect(typed.length).toBeGreaterThan(20);
    expect(fault('keys creat --name "a"')).toBe('no such command');
    expect(fault('keys create --nmae "a"')).toBe('nmae');
    expect(told(typed.filter(({ rest }) => fault(rest) !== undefined))).toEqual([]);
  });
});

test('programs and tests that the runtime is given exist', () => {
  const run = spans.flatMap(({ path, code }) => {
    const [, file] = /\bnpx bun (?:test )?([\w-]+\/[\w./-]+)$/.exec(code) ?? [];
    return file === undefined ? [] : [{ path, code: file }];
  });
  expect(told(run)).toContain('README.md: bench/overhead.ts');
  const isThere = (name: string) => paths.some((path) => `${path}/`.startsWith(`${name}/`));
  expect(told(run.filter(({ code }) => !isThere(code)))).toEqual([]);
});

test('routes exist with their methods', async () => {
  const patterns = (await routesInCode()).map(({ method, path }) => {
    const place = path.replace(/:\w+\{\.\+\}/g, '.+').replace(/:\w+/g, '[^/]+');
    return new RegExp(`^${method} ${place}$`);
  });
  const [served = ''] = textOf('docs/clients.md').split('## Unsupported endpoints');
  const named = [
    ...spans.filter(({ path }) => path !== 'docs/clients.md'),
    ...spansOf('docs/clients.md', served),
  ].filter(({ code }) => /^(?:GET|POST|PUT|PATCH|DELETE) \/\S*$/.test(code));
  expect(named.length).toBeGreaterThan(50);
  const missing = named.filter(({ code }) => {
    const [route = ''] = code.replace(/\{\.\+\}/, '').split('?');
    return !patterns.some((pattern) => pattern.test(route));
  });
  expect(told(missing)).toEqual([]);
});

describe('settings', () => {
  const page = textOf('docs/configuration.md');
  const rows = [...page.matchAll(/^\| `([^`]+)` +\|/gm)].map(([, name = '']) => name);

  test('named by their place in the file are options', () => {
    const first = 'server|limits|cache|billing|logs|tools|providers|models\\[\\]|quirks';
    const named = spans
      .map(({ path, code }) => ({ path, code: code.replace(/: .*$/, '') }))
      .filter(({ code }) => new RegExp(`^(?:${first})\\.[\\w.<>[\\]]+$`).test(code));
    expect(told(named)).toContain('docs/operations.md: logs.keep_days');
    const isOption = (code: string) =>
      rows.some((row) => row === code || row.startsWith(`${code}.`)) || /\.quirks$/.test(code);
    expect(told(named.filter(({ code }) => !isOption(code)))).toEqual([]);
  });

  test('of our own in the environment are variables that are read', () => {
    // The readers' own, in whose names the pages speak; and one of the tests.
    const theirs = ['URL', 'KEY', 'MANAGEMENT_KEY', 'API_KEY', 'SCREENSHOTS'];
    const known = [...rows, ...theirs.map((name) => `TOLLGATE_${name}`)];
    const named = documents.flatMap(({ path, text }) =>
      (text.match(/\bTOLLGATE_[A-Z_]+\b/g) ?? []).map((code) => ({ path, code })),
    );
    expect(told(named)).toContain('docs/keys.md: TOLLGATE_ADMIN_TOKEN');
    expect(told(named.filter(({ code }) => !known.includes(code)))).toEqual([]);
  });
});

describe('blocks', () => {
  const options = Object.keys(configFileSchema.properties);
  const isSetting = (data: unknown) =>
    isObject(data) && Object.keys(data).every((name) => options.includes(name));
  const settings = blocksIn('yaml').filter(({ code }) => isSetting(parse(code)));

  test('of settings are found', () => {
    expect(new Set(settings.map(({ path }) => path))).toEqual(
      new Set(['docs/providers.md', 'docs/web-search.md']),
    );
  });

  test.each(settings)('$name loads', ({ code }) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-mentions-'));
    const file = join(folder, 'tollgate.yaml');
    writeFileSync(file, code);
    const needed = [...code.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => [name, 'sk-example']);
    try {
      const environment = { ...Object.fromEntries(needed), TOLLGATE_CONFIG: file };
      expect(loadConfig({}, environment).source).toContain('tollgate.yaml');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.each(blocksIn('json'))('$name is JSON, whole or line by line', ({ code }) => {
    const lines = code.trim().split('\n');
    const isOneEach = lines.length > 1 && lines.every((line) => /^\{.*\}$/.test(line));
    for (const text of isOneEach ? lines : [code]) expect(isObject(JSON.parse(text))).toBe(true);
  });
});

test('models by a brand of the catalogue are in it', () => {
  const known = new Set(builtinCatalog.models.map(({ id }) => id));
  const brands = new Set([...known].map((id) => id.split('/')[0]));
  const isAlias = ({ code }: Mention) =>
    /^[a-z][\w-]*\/[\w.:-]+$/.test(code) && brands.has(code.split('/')[0]) && !code.endsWith('.ts');
  const inBlocks = documents.flatMap(({ path, text }) =>
    [...text.matchAll(/"model": ?"([^"]+)"/g)].map(([, code = '']) => ({ path, code })),
  );
  const named = [...spans, ...inBlocks].filter(isAlias);
  expect(named.length).toBeGreaterThan(50);
  const missing = named.filter(({ code }) => !known.has(code.replace(/:online$/, '')));
  expect(told(missing)).toEqual([]);
});

test('log events are documented with their level, and no others are', () => {
  const levelled =
    /\blog(?:\.(info|warn|error)|\[[^\]]*'(error)'\])\(\s*'(\w+)'|\blogLine\('(\w+)', '(\w+)'/gi;
  const written = [...tree.values()]
    .filter(({ path }) => /^src\/.*(?<!\.test)\.ts$/.test(path))
    .flatMap(({ uncommented }) => [...uncommented.matchAll(levelled)])
    .map(([, a, b, event, level, line]) => `${event ?? line} ${a ?? b ?? level}`);
  expect(written).toContain('redis_away warn');
  const [, part = ''] = textOf('docs/observability.md').split('## Log events');
  const rows = (part.split(/^## /m)[0] ?? '').matchAll(/^\| `(\w+)` +\| (\w+) /gm);
  const documented = [...rows].map(([, event, level]) => `${event} ${level}`);
  expect(documented).toEqual([...new Set(written)].sort());
});

describe('every page', () => {
  const pages = documents.filter(({ path }) => /^(?:docs\/)?[\w-]+\.md$/.test(path));

  test.each(pages)('$path begins with what it is for', ({ text }) => {
    expect(text).toMatch(/^# [^\n]+\n\n[A-Z`*][^\n]{40,}/);
  });

  test.each(pages)('$path is linked in the README', ({ path }) => {
    expect(path === 'README.md' || textOf('README.md').includes(`](${path})`)).toBe(true);
  });
});

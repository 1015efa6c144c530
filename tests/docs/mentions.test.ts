/**
 * Checks that what the docs mention exists: files, commands with their options, routes, settings,
 * variables, and log events. After a rename, this fails until the docs are updated.
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

/** Returns the code spans outside of code blocks. */
const spansOf = (path: string, text: string): Mention[] =>
  [...text.replace(fence, '').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => ({ path, code }));

const spans = documents.flatMap(({ path, text }) => spansOf(path, text));

const blocksIn = (language: string) =>
  documents.flatMap(({ path, text }) =>
    [...text.matchAll(fence)]
      .filter(([, found]) => found === language)
      .map(([, , code = ''], i) => ({ path, code, name: `${path} ${i + 1}` })),
  );

const listed = (mentions: readonly Mention[]) =>
  mentions.map(({ path, code }) => `${path}: ${code}`);

describe('files that are mentioned', () => {
  /** Files of other programs on the reader's machine. */
  const priceList = 'model_prices_and_context_window.json';
  const foreign = ['opencode.json', 'settings.json', 'librechat.yaml', 'api.json', priceList];
  const top = 'src|tests|docs|bench|deploy|dashboard|fixtures|examples';
  const isFile = new RegExp(`^(?:[\\w./-]*\\.(?:tsx?|md|json|yaml|sh)|(?:${top})/[\\w./-]*)$`);
  const exists = (name: string) =>
    paths.some((path) => `/${path}`.endsWith(`/${name}`) || `/${path}`.includes(`/${name}/`));

  test('exist if a page names them', () => {
    const named = spans
      .map(({ path, code }) => ({ path, code: code.replace(/^\.\/|\/$/g, '') }))
      .filter(({ code }) => isFile.test(code) && !code.startsWith('/'));
    expect(listed(named)).toContain('ARCHITECTURE.md: src/gateway.ts');
    const missing = named.filter(({ code }) => !foreign.includes(code) && !exists(code));
    expect(listed(missing)).toEqual([]);
  });

  test('exist if a comment or a message names them', () => {
    const mention = new RegExp(
      `(?<![\\w./-])(?:${top})/[\\w./-]+\\.(?:tsx?|md|json|yaml|sh)\\b`,
      'g',
    );
    // These tests name invented files.
    const rules = ['tests/house-rules.test.ts', 'tests/docs/mentions.test.ts'];
    const named = [...tree.values()]
      .filter(({ path }) => !path.startsWith('fixtures/') && !rules.includes(path))
      .flatMap(({ path, text }) => (text.match(mention) ?? []).map((code) => ({ path, code })));
    expect(listed(named)).toContain('deploy/build.ts: src/main.ts');
    expect(listed(named.filter(({ code }) => !tree.has(code)))).toEqual([]);
  });
});

describe('README measurements', () => {
  const [, behind = ''] = textOf('README.md').split('## Measured and tested\n');
  const [part = ''] = behind.split(/^## /m);

  test('are the same as the measurements on the pages that explain them', () => {
    const figures = part.match(/\d[\d.,]* (?:ms|MB)\b|\d,\d{3},\d{3}/g) ?? [];
    expect(figures.length).toBe(10);
    const pages = `${textOf('docs/deployment.md')}${textOf('docs/dashboard.md')}`;
    const known = new Set(pages.match(/\d[\d.,]* (?:ms|MB)\b|\d,\d{3},\d{3}/g));
    expect(figures.filter((figure) => !known.has(figure))).toEqual([]);
  });

  test('state the number of kills of the crash test', () => {
    expect(part).toContain('killed 30 times');
    expect(textOf('tests/money/kill.test.ts')).toContain('const kills = 30;');
  });
});

describe('commands that are mentioned', () => {
  const forms = [
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
    const words = forms.map((form) => form.exec(code)?.[1]).find((rest) => rest !== undefined);
    const started = /^npm start -- (.*)$/.exec(code)?.[1];
    const rest = started === undefined ? words : `serve ${started}`;
    return rest === undefined || rest === '--' ? [] : [{ path, code, rest }];
  });

  /** Returns why a command line is invalid, or undefined if it's valid. */
  function problemWith(rest: string): string | undefined {
    const [first = '', second = ''] = rest.replace(/^-- /, '').split(' ');
    if (first.startsWith('<')) return undefined;
    const topic = topics.find(({ name }) => name === first);
    const command = topic?.commands.find(({ name }) => name === '' || name === second);
    if (!command) return 'no such command';
    const known = { ...command.options, ...commonOptions };
    const options = [...rest.matchAll(/(?<= )--([a-z][\w-]*)/g)].map(([, name = '']) => name);
    return options.find((name) => !(name in known));
  }

  test('exist with their options', () => {
    expect(typed.length).toBeGreaterThan(20);
    expect(problemWith('keys creat --name "a"')).toBe('no such command');
    expect(problemWith('keys create --nmae "a"')).toBe('nmae');
    expect(listed(typed.filter(({ rest }) => problemWith(rest) !== undefined))).toEqual([]);
  });
});

test('files in `npx bun` commands exist', () => {
  const run = spans.flatMap(({ path, code }) => {
    const [, file] = /\bnpx bun (?:test )?([\w-]+\/[\w./-]+)$/.exec(code) ?? [];
    return file === undefined ? [] : [{ path, code: file }];
  });
  expect(listed(run)).toContain('README.md: bench/overhead.ts');
  const exists = (name: string) => paths.some((path) => `${path}/`.startsWith(`${name}/`));
  expect(listed(run.filter(({ code }) => !exists(code)))).toEqual([]);
});

test('routes that are mentioned exist with their methods', async () => {
  const patterns = (await routesInCode()).map(({ method, path }) => {
    const pathPattern = path.replace(/:\w+\{\.\+\}/g, '.+').replace(/:\w+/g, '[^/]+');
    return new RegExp(`^${method} ${pathPattern}$`);
  });
  const [supported = ''] = textOf('docs/clients.md').split('## Unsupported endpoints');
  const named = [
    ...spans.filter(({ path }) => path !== 'docs/clients.md'),
    ...spansOf('docs/clients.md', supported),
  ].filter(({ code }) => /^(?:GET|POST|PUT|PATCH|DELETE) \/\S*$/.test(code));
  expect(named.length).toBeGreaterThan(50);
  const missing = named.filter(({ code }) => {
    const [route = ''] = code.replace(/\{\.\+\}/, '').split('?');
    return !patterns.some((pattern) => pattern.test(route));
  });
  expect(listed(missing)).toEqual([]);
});

describe('settings that are mentioned', () => {
  const page = textOf('docs/configuration.md');
  const rows = [...page.matchAll(/^\| `([^`]+)` +\|/gm)].map(([, name = '']) => name);

  test('exist in the configuration file', () => {
    const first = 'server|limits|cache|billing|logs|tools|providers|models\\[\\]|quirks';
    const named = spans
      .map(({ path, code }) => ({ path, code: code.replace(/: .*$/, '') }))
      .filter(({ code }) => new RegExp(`^(?:${first})\\.[\\w.<>[\\]]+$`).test(code));
    expect(listed(named)).toContain('docs/operations.md: logs.keep_days');
    const isOption = (code: string) =>
      rows.some((row) => row === code || row.startsWith(`${code}.`)) || /\.quirks$/.test(code);
    expect(listed(named.filter(({ code }) => !isOption(code)))).toEqual([]);
  });

  test('exist as environment variables', () => {
    // Variables of the readers' own programs and of the tests.
    const others = ['URL', 'KEY', 'MANAGEMENT_KEY', 'API_KEY', 'SCREENSHOTS', 'TEST_SEED'];
    const values = [...rows, ...others.map((name) => `TOLLGATE_${name}`)];
    // A variable with a secret can be read from a file instead.
    const known = values.flatMap((name) => [name, `${name}_FILE`]);
    const named = documents.flatMap(({ path, text }) =>
      (text.match(/\bTOLLGATE_[A-Z_]+\b/g) ?? []).map((code) => ({ path, code })),
    );
    expect(listed(named)).toContain('docs/keys.md: TOLLGATE_ADMIN_TOKEN');
    expect(listed(named.filter(({ code }) => !known.includes(code)))).toEqual([]);
  });
});

describe('code blocks', () => {
  const options = Object.keys(configFileSchema.properties);
  const isSetting = (data: unknown) =>
    isObject(data) && Object.keys(data).every((name) => options.includes(name));
  const settings = blocksIn('yaml').filter(({ code }) => isSetting(parse(code)));

  test('with settings are on exactly 2 pages', () => {
    expect(new Set(settings.map(({ path }) => path))).toEqual(
      new Set(['docs/providers.md', 'docs/web-search.md']),
    );
  });

  test.each(settings)('with settings load: $name', ({ code }) => {
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

  test.each(blocksIn('json'))(
    'with JSON are valid, either entirely or line by line: $name',
    ({ code }) => {
      const lines = code.trim().split('\n');
      const isOneEach = lines.length > 1 && lines.every((line) => /^\{.*\}$/.test(line));
      for (const text of isOneEach ? lines : [code]) expect(isObject(JSON.parse(text))).toBe(true);
    },
  );
});

test('models of a built-in brand that are mentioned are in the catalog', () => {
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
  expect(listed(missing)).toEqual([]);
});

test('docs/observability.md lists every log event with its level', () => {
  const logCall =
    /\blog(?:\.(info|warn|error)|\[[^\]]*'(error)'\])\(\s*'(\w+)'|\blogLine\('(\w+)', '(\w+)'/gi;
  const written = [...tree.values()]
    .filter(({ path }) => /^src\/.*(?<!\.test)\.ts$/.test(path))
    .flatMap(({ uncommented }) => [...uncommented.matchAll(logCall)])
    .map(([, a, b, event, level, line]) => `${event ?? line} ${a ?? b ?? level}`);
  expect(written).toContain('redis_unreachable warn');
  const [, part = ''] = textOf('docs/observability.md').split('## Log events');
  const rows = (part.split(/^## /m)[0] ?? '').matchAll(/^\| `(\w+)` +\| (\w+) /gm);
  const documented = [...rows].map(([, event, level]) => `${event} ${level}`);
  expect(documented).toEqual([...new Set(written)].sort());
});

describe('pages', () => {
  const pages = documents.filter(({ path }) => /^(?:docs\/)?[\w-]+\.md$/.test(path));

  test.each(pages)('start with a title and an introduction: $path', ({ text }) => {
    expect(text).toMatch(/^# [^\n]+\n\n[A-Z`*][^\n]{40,}/);
  });

  test.each(pages)('are linked in the README: $path', ({ path }) => {
    expect(path === 'README.md' || textOf('README.md').includes(`](${path})`)).toBe(true);
  });
});

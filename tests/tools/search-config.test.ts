/** The options of `tools.web_search` and their error messages. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/load.ts';
import { ConfigProblems } from '../../src/config/problems.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-search-config-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function load(search: object | null, environment: Record<string, string> = {}) {
  const config = join(folder, 'tollgate.yaml');
  writeFileSync(config, JSON.stringify({ tools: { web_search: search } }));
  return loadConfig({ config }, environment).webSearch;
}

function problems(search: object): string[] {
  try {
    load(search);
  } catch (error) {
    if (error instanceof ConfigProblems) {
      return error.problems.map(({ path, message }) => `${path} ${message}`);
    }
  }
  return [];
}

describe('tools.web_search', () => {
  test('is off unless an engine is configured', () => {
    expect(load(null)).toBeNull();
  });

  test('has defaults for everything except the engine and its URL', () => {
    expect(load({ engine: 'searxng', url: 'http://127.0.0.1:8888/' })).toEqual({
      engine: 'searxng',
      url: 'http://127.0.0.1:8888',
      apiKey: null,
      usdPerSearch: '0.005',
      callsMax: 5,
      resultsMax: 5,
    });
  });

  test('knows the URLs of Brave and Tavily and reads their keys from the environment', () => {
    for (const [engine, url] of [
      ['brave', 'https://api.search.brave.com'],
      ['tavily', 'https://api.tavily.com'],
    ]) {
      const search = load({ engine, api_key: `\${SEARCH_KEY}` }, { SEARCH_KEY: 'key-0123456789' });
      expect(search?.url).toBe(url ?? '');
      expect(search?.apiKey?.reveal()).toBe('key-0123456789');
    }
    const own = { engine: 'brave', api_key: 'k', url: 'http://proxy.internal/brave' };
    expect(load(own)?.url).toBe('http://proxy.internal/brave');
  });

  test('accepts every option', () => {
    const all = { usd_per_search: '0', calls_max: 20, results_max: 20 };
    expect(load({ engine: 'tavily', api_key: 'k', ...all })).toMatchObject({
      usdPerSearch: '0',
      callsMax: 20,
      resultsMax: 20,
    });
  });

  test.each<[object, string]>([
    [{}, 'tools.web_search.engine is required'],
    [{ url: 'http://a' }, 'tools.web_search.engine is required'],
    [{ engine: 'searxng' }, 'tools.web_search.url is required for searxng'],
    [{ engine: 'brave' }, 'tools.web_search.api_key is required for brave'],
    [{ engine: 'tavily', api_key: null }, 'tools.web_search.api_key is required for tavily'],
    [
      { engine: 'searxng', url: 'http://me:pw@a.example' },
      'tools.web_search.url must have no user name, query, or fragment',
    ],
    [
      { engine: 'searxng', url: 'http://a.example/?x=1' },
      'tools.web_search.url must have no user name, query, or fragment',
    ],
    [
      { engine: 'searxng', url: 'a.example' },
      'tools.web_search.url must be an http(s) URL such as "http://127.0.0.1:8888"',
    ],
    [
      { engine: 'google', url: 'http://a' },
      'tools.web_search.engine must be one of "searxng", "brave", "tavily", not "google"',
    ],
    [
      { engine: 'searxng', url: 'http://a', calls_max: 0 },
      'tools.web_search.calls_max must be a whole number from 1 to 20, not 0',
    ],
    [
      { engine: 'searxng', url: 'http://a', results_max: 21 },
      'tools.web_search.results_max must be a whole number from 1 to 20, not 21',
    ],
    [
      { engine: 'searxng', url: 'http://a', result_max: 2 },
      'tools.web_search.result_max is not a known field; did you mean "results_max"?',
    ],
  ])('rejects %j', (search, problem) => {
    expect(problems(search)).toEqual([problem]);
  });
});

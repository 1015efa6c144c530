import { useMemo } from 'preact/hooks';
import { requestData } from '../api.ts';
import { Badge, Empty, Loading } from '../components/feedback.tsx';
import { SelectField, TextField } from '../components/field.tsx';
import { Card, Page, Tile, Tiles } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type Column, Table } from '../components/table.tsx';
import { count, date, plural } from '../format.ts';
import { useLoad } from '../load.ts';
import {
  ageOf,
  changeText,
  historiesOf,
  oldDays,
  type PriceHistory,
  setPrices,
  sourceText,
} from '../price-history.ts';
import {
  closeOverlay,
  offsetOf,
  openOverlay,
  optionIn,
  setQuery,
  urlFor,
  useRoute,
} from '../route.ts';
import { useSession } from '../session.ts';
import type { Price } from '../shapes.ts';
import { shortPrice } from './model-sheet.tsx';
import { PriceSheet } from './price-sheet.tsx';

/** Thousands of rows would make the page slow to type in. */
const rowsPerPage = 100;

/** What each model costs at each provider: now, before, and from a scheduled time on. */
export function Prices() {
  const { key } = useSession();
  const route = useRoute();
  const path = '/admin/v1/prices';
  const loaded = useLoad(path, (signal) => requestData<Price[]>(path, { key, signal }));
  const { data, reload } = loaded;
  const histories = useMemo(() => data && historiesOf(data), [data]);
  const open = histories?.find(({ name }) => name === route.query.get('price'));
  return (
    <Page
      title="Prices"
      lead="What models cost, without margins. A request is charged by the prices at its beginning."
      actions={<Refresh {...loaded} />}
    >
      <Loading loaded={loaded} text="Loading prices…" />
      {histories && histories.length === 0 && <NoPrices />}
      {histories && histories.length > 0 && <Listed histories={histories} />}
      {open && (
        <PriceSheet history={open} onChange={reload} onClose={() => closeOverlay('price')} />
      )}
    </Page>
  );
}

function NoPrices() {
  return (
    <Empty title="No prices yet">
      <p>
        Prices come with models.{' '}
        <a href={urlFor('configuration')}>Give a built-in provider its key</a>, or{' '}
        <a href={urlFor('configuration', { kind: 'models' })}>create a model</a> with your own
        prices.
      </p>
    </Empty>
  );
}

const shows = {
  all: { text: 'All', by: (_: PriceHistory) => true },
  scheduled: { text: 'With a scheduled change', by: ({ next }) => next !== undefined },
  old: { text: 'Old sources', by: (one) => ageOf(one) > oldDays },
  changed: { text: 'Changed before', by: ({ current }) => current.from !== null },
} as const satisfies Record<string, { text: string; by: (history: PriceHistory) => boolean }>;

const timeOf = (price: Price | undefined, fallback: number) =>
  price?.from ? Date.parse(price.from) : fallback;
const inputPrice = ({ current }: PriceHistory) =>
  Number(current.pricing.prompt ?? Number.NEGATIVE_INFINITY);

const orders = {
  model: { text: 'Model', by: (a, b) => (a.name < b.name ? -1 : 1) },
  price: { text: 'Highest input price', by: (a, b) => inputPrice(b) - inputPrice(a) },
  next: {
    text: 'Next change',
    by: (a, b) => timeOf(a.next, Number.MAX_SAFE_INTEGER) - timeOf(b.next, Number.MAX_SAFE_INTEGER),
  },
  age: { text: 'Oldest source', by: (a, b) => ageOf(b) - ageOf(a) },
  latest: { text: 'Latest change', by: (a, b) => timeOf(b.current, 0) - timeOf(a.current, 0) },
} as const satisfies Record<
  string,
  { text: string; by: (a: PriceHistory, b: PriceHistory) => number }
>;

interface ListedProps {
  readonly histories: readonly PriceHistory[];
}

function Listed({ histories }: ListedProps) {
  const route = useRoute();
  const { query } = route;
  const search = (query.get('search') ?? '').toLowerCase();
  const provider = query.get('provider') ?? '';
  const { by } = shows[optionIn(shows, query.get('show'), 'all')];
  const sort = optionIn(orders, query.get('sort'), 'model');
  const sorted = useMemo(() => histories.toSorted(orders[sort].by), [histories, sort]);
  const matching = sorted
    .filter((one) => one.model.toLowerCase().includes(search) && by(one))
    .filter((one) => provider === '' || one.provider === provider);
  const offset = offsetOf(route);
  return (
    <>
      <Summary histories={histories} />
      <Filters histories={histories} />
      {matching.length === 0 && (
        <Empty title="No matching prices">
          <p>
            <a href={urlFor('prices')}>Show all prices</a>
          </p>
        </Empty>
      )}
      {matching.length > 0 && (
        <Card>
          <Table
            label="Prices"
            columns={columns}
            rows={matching.slice(offset, offset + rowsPerPage)}
            rowKey={({ name }) => name}
            onRow={openSheet}
          />
          <Pager
            label="Pages of prices"
            offset={offset}
            perPage={rowsPerPage}
            isFull={matching.length > offset + rowsPerPage}
          />
        </Card>
      )}
    </>
  );
}

function Summary({ histories }: ListedProps) {
  return useMemo(() => <Totals histories={histories} />, [histories]);
}

function Totals({ histories }: ListedProps) {
  const models = new Set(histories.map(({ model }) => model)).size;
  const scheduled = histories
    .flatMap(({ prices }) => prices)
    .flatMap(({ state, from }) => (state === 'scheduled' && from !== null ? [from] : []));
  const [first] = scheduled.toSorted();
  const oldest = histories.toSorted((a, b) => ageOf(b) - ageOf(a))[0];
  const old = histories.filter((one) => ageOf(one) > oldDays).length;
  const isKnown = histories.some(({ current }) => current.price_source !== null);
  return (
    <>
      {old > 0 && (
        <p class="note warn">
          {plural(old, 'price')} {old === 1 ? 'was' : 'were'} read more than {oldDays} days ago, so
          providers may have changed {old === 1 ? 'it' : 'them'}. To compare prices with a public
          list, run <code>tollgate prices check</code>.{' '}
          <a href={urlFor('prices', { show: 'old', sort: 'age' })}>
            Show {old === 1 ? 'it' : 'them'}
          </a>
        </p>
      )}
      <Tiles>
        <Tile name="Models" value={count(models)} below={plural(histories.length, 'price')} />
        {isKnown && oldest && (
          <Tile
            name="Oldest source"
            value={plural(ageOf(oldest), 'day')}
            below={`${oldest.provider}, read ${oldest.current.price_source?.date ?? 'once'}`}
          />
        )}
        <Tile
          name="Scheduled changes"
          value={count(scheduled.length)}
          below={first === undefined ? 'none' : `the first on ${date(first)}`}
        />
      </Tiles>
    </>
  );
}

function Filters({ histories }: ListedProps) {
  const { query } = useRoute();
  const set = (name: string) => (value: string) =>
    setQuery({ [name]: value, offset: null }, 'replace');
  const providers = useMemo(
    () => [...new Set(histories.map(({ provider }) => provider))].toSorted(),
    [histories],
  );
  return (
    <div class="toolbar">
      <TextField
        label="Search"
        type="search"
        placeholder="Model"
        value={query.get('search') ?? ''}
        onValue={set('search')}
      />
      <SelectField
        label="Provider"
        value={query.get('provider') ?? ''}
        onValue={set('provider')}
        options={[['', 'All'], ...providers.map((name) => [name, name] as const)]}
      />
      <SelectField
        label="Show"
        value={optionIn(shows, query.get('show'), 'all')}
        onValue={set('show')}
        options={Object.entries(shows).map(([name, { text }]) => [name, text] as const)}
      />
      <SelectField
        label="Sort by"
        value={optionIn(orders, query.get('sort'), 'model')}
        onValue={set('sort')}
        options={Object.entries(orders).map(([name, { text }]) => [name, text] as const)}
      />
    </div>
  );
}

const openSheet = ({ name }: PriceHistory) => openOverlay({ price: name });

const columns: readonly Column<PriceHistory>[] = [
  {
    title: 'Model',
    isHead: true,
    cell: (history) => (
      <span class="two-lines">
        <button type="button" class="link strong" onClick={() => openSheet(history)}>
          {history.model}
        </button>
        {history.upstreamModel !== undefined && <small>{history.upstreamModel}</small>}
      </span>
    ),
  },
  { title: 'Provider', cell: ({ provider }) => provider },
  {
    title: 'In force',
    cell: ({ current: { pricing } }) => (
      <span class="two-lines">
        <span class="price">{shortPrice({ pricing: Object.fromEntries(setPrices(pricing)) })}</span>
        {pricing.long_prompts && <small>more for long prompts</small>}
      </span>
    ),
  },
  {
    title: 'Since',
    cell: ({ current: { from } }) => (from === null ? '–' : date(from)),
  },
  { title: 'Source', cell: (history) => <SourceAge history={history} /> },
  { title: 'Next change', cell: (history) => <NextChange history={history} /> },
];

function SourceAge({ history }: { readonly history: PriceHistory }) {
  const { price_source: read, owner } = history.current;
  if (!read) return <>{owner === 'file' ? 'file' : '–'}</>;
  const age = ageOf(history);
  return (
    <span class="two-lines" title={sourceText(read)}>
      <span class="one-line">{read.date ?? 'unknown date'}</span>
      {age > oldDays && <Badge tone="warn">{plural(age, 'day')} old</Badge>}
    </span>
  );
}

function NextChange({ history: { current, next } }: { readonly history: PriceHistory }) {
  if (!next?.from) return <>–</>;
  return (
    <span class="two-lines">
      <span class="one-line">{date(next.from)}</span>
      <small>{mainChanges(current, next)}</small>
    </span>
  );
}

/** Returns the changes of the first two prices that differ, such as `input +20%`. */
function mainChanges(before: Price, after: Price): string {
  const names = new Set(
    [...setPrices(before.pricing), ...setPrices(after.pricing)].map(([n]) => n),
  );
  const changes = [...names].flatMap((name) => {
    const text = changeText(before.pricing[name], after.pricing[name]);
    return text === undefined ? [] : [`${shortNames[name] ?? name.replaceAll('_', ' ')} ${text}`];
  });
  return changes.slice(0, 2).join(', ') || 'same prices';
}

const shortNames: Readonly<Record<string, string>> = { prompt: 'input', completion: 'output' };

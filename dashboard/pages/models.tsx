import { requestData } from '../api.ts';
import { Badge, CircuitState, Empty, Loading } from '../components/feedback.tsx';
import { SelectField, TextField } from '../components/field.tsx';
import { Card, Page } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, plural } from '../format.ts';
import { useLoad } from '../load.ts';
import { offsetOf, openOverlay, optionIn, setQuery, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Endpoint, Model, ServedModel } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { ModelSheet, shortPrice } from './model-sheet.tsx';

export interface CatalogModel extends Model {
  readonly endpoints: readonly Endpoint[];
}

export async function loadCatalog(key: string, signal: AbortSignal): Promise<CatalogModel[]> {
  const [models, endpointLists] = await Promise.all([
    requestData<Model[]>('/v1/models', { key, signal }),
    requestData<ServedModel[]>('/v1/customer/models', { key, signal }),
  ]);
  const byId = new Map(endpointLists.map(({ id, endpoints }) => [id, endpoints]));
  return models.map((model) => ({ ...model, endpoints: byId.get(model.id) ?? [] }));
}

const priceOf = (name: string) => (model: CatalogModel) =>
  Number(model.endpoints[0]?.pricing[name] ?? Number.POSITIVE_INFINITY);

const orders = {
  name: { text: 'Name', by: (a, b) => a.id.localeCompare(b.id) },
  prompt: { text: 'Input price', by: (a, b) => priceOf('prompt')(a) - priceOf('prompt')(b) },
  completion: {
    text: 'Output price',
    by: (a, b) => priceOf('completion')(a) - priceOf('completion')(b),
  },
  context: { text: 'Context', by: (a, b) => b.context_length - a.context_length },
} as const satisfies Record<
  string,
  { text: string; by: (a: CatalogModel, b: CatalogModel) => number }
>;

function matches(model: CatalogModel, search: string, feature: string): boolean {
  const providers = model.endpoints.map(({ provider }) => provider);
  const text = [model.id, model.name, model.description, ...providers].join(' ').toLowerCase();
  const terms = search.toLowerCase().split(/\s+/);
  return terms.every((term) => text.includes(term)) && (feature === '' || has(model, feature));
}

function has({ architecture }: CatalogModel, feature: string): boolean {
  return feature === 'vision'
    ? architecture.input_modalities.includes('image')
    : architecture.features.includes(feature);
}

const features = [
  ['', 'Any'],
  ['vision', 'Image input'],
  ['tools', 'Tools'],
  ['json_schema', 'JSON schema'],
  ['reasoning', 'Reasoning'],
  ['embeddings', 'Embeddings'],
  ['speech', 'Speech'],
  ['transcription', 'Transcription'],
  ['image_generation', 'Image generation'],
  ['image_edit', 'Image editing'],
] as const;

const leadOf = (models: number) =>
  `This key can call ${plural(models, 'model')}. ` +
  'Input and output prices are per million tokens.';

export function Models() {
  const { key } = useSession();
  const { query } = useRoute();
  const loaded = useLoad('models', (signal) => loadCatalog(key, signal));
  const { data } = loaded;
  const [search, feature] = [query.get('search') ?? '', query.get('feature') ?? ''];
  const sort = optionIn(orders, query.get('sort'), 'name');
  const { by } = orders[sort];
  const shown = (data ?? []).filter((model) => matches(model, search, feature)).toSorted(by);
  const open = data?.find(({ id }) => id === query.get('model'));
  return (
    <Page title="Models" lead={data ? leadOf(data.length) : 'The model catalog.'}>
      <div class="toolbar">
        <TextField
          label="Search"
          type="search"
          placeholder="Name, brand, or provider"
          value={search}
          onValue={(text) => setQuery({ search: text, offset: null }, 'replace')}
        />
        <SelectField
          label="Capability"
          value={feature}
          onValue={(value) => setQuery({ feature: value, offset: null })}
          options={features}
        />
        <SelectField
          label="Sort by"
          value={sort}
          onValue={(value) => setQuery({ sort: value, offset: null })}
          options={Object.entries(orders).map(([name, { text }]) => [name, text] as const)}
        />
      </div>
      <Loading loaded={loaded} text="Loading models…" />
      {data && <List models={shown} />}
      {open && <ModelSheet model={open} />}
    </Page>
  );
}

const openModel = ({ id }: CatalogModel) => openOverlay({ model: id });

const columns: readonly Column<CatalogModel>[] = [
  {
    title: 'Model',
    isHead: true,
    cell: (model) => (
      <span class="two-lines">
        <button type="button" class="link strong" onClick={() => openModel(model)}>
          {model.name}
        </button>
        <small>
          <code>{model.id}</code>
        </small>
      </span>
    ),
  },
  {
    title: 'Price',
    cell: ({ endpoints }) => <span class="price">{shortPrice(endpoints[0])}</span>,
  },
  numberColumn('Context', ({ context_length }) =>
    context_length === 0 ? '–' : count(context_length),
  ),
  {
    title: 'Capabilities',
    cell: ({ architecture }) => (
      <span class="badges">
        {architecture.input_modalities.includes('image') && <Badge>image input</Badge>}
        {architecture.features.map((feature) => (
          <Badge key={feature}>{feature.replaceAll('_', ' ')}</Badge>
        ))}
      </span>
    ),
  },
  {
    title: 'Providers',
    cell: ({ endpoints }) => (
      <ul class="providers">
        {endpoints.map(({ provider, circuit, traffic_mode, priority }) => (
          <li key={`${provider}-${traffic_mode}-${priority}`}>
            {provider} <CircuitState circuit={circuit} />
          </li>
        ))}
      </ul>
    ),
  },
];

/** Thousands of rows would make the page slow to type in. */
const rowsPerPage = 100;

function List({ models }: { readonly models: readonly CatalogModel[] }) {
  const offset = offsetOf(useRoute());
  if (models.length === 0) {
    return (
      <Empty title="No matching models" curl={curl('GET', '/v1/models')}>
        <p>Try fewer search words, or list all models from a terminal.</p>
      </Empty>
    );
  }
  return (
    <Card>
      <Table
        label="Models"
        columns={columns}
        rows={models.slice(offset, offset + rowsPerPage)}
        rowKey={({ id }) => id}
        onRow={openModel}
      />
      <Pager
        label="Pages of models"
        offset={offset}
        perPage={rowsPerPage}
        isFull={models.length > offset + rowsPerPage}
      />
    </Card>
  );
}

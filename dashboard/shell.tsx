import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Icon, type IconName, Mark } from './components/icon.tsx';
import { Page } from './components/page.tsx';
import { Audit } from './pages/audit.tsx';
import { Byok } from './pages/byok.tsx';
import { Configuration } from './pages/configuration.tsx';
import { CreditsPage } from './pages/credits.tsx';
import { Explain } from './pages/explain.tsx';
import { Jobs } from './pages/jobs.tsx';
import { Keys } from './pages/keys.tsx';
import { Logs } from './pages/logs.tsx';
import { Models } from './pages/models.tsx';
import { Operator } from './pages/operator.tsx';
import { Overview } from './pages/overview.tsx';
import { Playground } from './pages/playground.tsx';
import { Prices } from './pages/prices.tsx';
import { Skills } from './pages/skills.tsx';
import { urlFor, useRoute } from './route.ts';
import { hasScope, type Session, useSession } from './session.ts';
import type { Scope } from './shapes.ts';
import { useTheme } from './theme.ts';

interface Item {
  readonly group: string;
  /** The page's path and icon name. '' is the home page, whose icon is `overview`. */
  readonly page: IconName | '';
  readonly title: string;
  readonly component: () => VNode;
  readonly access: AccessRule;
}

/** Says which keys can open a page, and describes these keys for users who lack one. */
interface AccessRule {
  readonly allows: (session: Session) => boolean;
  readonly description: string;
}

const anyKey: AccessRule = { allows: () => true, description: 'any key' };
const tenantKey: AccessRule = {
  allows: ({ kind }) => kind !== 'admin',
  description: 'a routing or management key',
};
const managementKey: AccessRule = {
  allows: ({ kind }) => kind === 'management',
  description: 'a management key (sk-mgmt-…)',
};
const adminToken: AccessRule = {
  allows: ({ kind }) => kind === 'admin',
  description: 'the admin token (sk-admin-…)',
};
const withScope = (scope: Scope): AccessRule => ({
  allows: (session) => hasScope(session, scope),
  description: `a key with the “${scope}” scope`,
});

function item(
  group: string,
  page: Item['page'],
  title: string,
  component: Item['component'],
  access: AccessRule,
): Item {
  return { group, page, title, component, access };
}

const items: readonly Item[] = [
  item('Usage', '', 'Overview', Overview, withScope('customer')),
  item('Usage', 'logs', 'Logs', Logs, withScope('customer')),
  item('Usage', 'credits', 'Credits', CreditsPage, withScope('customer')),
  item('Build', 'models', 'Models', Models, tenantKey),
  item('Build', 'playground', 'Playground', Playground, withScope('chat')),
  item('Build', 'jobs', 'Jobs', Jobs, withScope('jobs')),
  item('Build', 'skills', 'Skills', Skills, withScope('customer')),
  item('Manage', 'keys', 'Keys', Keys, managementKey),
  item('Manage', 'byok', 'Provider keys', Byok, managementKey),
  item('Installation', 'operator', 'Operator', Operator, adminToken),
  item('Installation', 'configuration', 'Configuration', Configuration, adminToken),
  item('Installation', 'prices', 'Prices', Prices, adminToken),
  item('Installation', 'audit', 'Audit log', Audit, adminToken),
  item('Build', 'explain', 'Explain a route', Explain, anyKey),
];

export function Shell() {
  const session = useSession();
  const { page } = useRoute();
  const allowed = items.filter(({ access }) => access.allows(session));
  const requestedItem = items.find((one) => one.page === page);
  // A user who can't open the home page gets the first page that they can open.
  const shown =
    page === '' ? (allowed.find((one) => one.page === '') ?? allowed[0]) : requestedItem;
  const isAllowed = shown !== undefined && allowed.includes(shown);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to content
      </a>
      <Navigation items={allowed} current={shown?.page ?? page} />
      {isAllowed ? (
        <shown.component key={shown.page} />
      ) : (
        <NoAccess requestedItem={requestedItem} />
      )}
    </div>
  );
}

function NoAccess({ requestedItem }: { readonly requestedItem: Item | undefined }) {
  const reason = requestedItem
    ? `Your key can't open this page. Sign in with ${requestedItem.access.description}.`
    : "This page doesn't exist.";
  return (
    <Page title={requestedItem ? 'No access' : 'Page not found'}>
      <p class="note">
        {reason} <a href={urlFor('')}>Go to the home page</a>.
      </p>
    </Page>
  );
}

interface NavigationProps {
  readonly items: readonly Item[];
  readonly current: string;
}

function Navigation({ items: allowed, current }: NavigationProps) {
  const [isOpen, setOpen] = useState(false);
  const groups = [...new Set(allowed.map(({ group }) => group))];
  return (
    <div class={`side ${isOpen ? 'open' : ''}`}>
      <div class="side-head">
        <a class="brand" href={urlFor('')}>
          <Mark />
          <span>Tollgate</span>
        </a>
        <button
          type="button"
          class="secondary small menu-button"
          aria-expanded={isOpen}
          aria-controls="navigation"
          aria-label="Menu"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name={isOpen ? 'close' : 'menu'} />
        </button>
      </div>
      <nav id="navigation" aria-label="Pages">
        {groups.map((group) => (
          <div key={group} class="nav-group">
            <h2>{group}</h2>
            {allowed
              .filter((one) => one.group === group)
              .map(({ page, title }) => (
                <a
                  key={page}
                  href={urlFor(page)}
                  onClick={() => setOpen(false)}
                  {...(page === current ? { 'aria-current': 'page' as const } : {})}
                >
                  <Icon name={page || 'overview'} />
                  {title}
                </a>
              ))}
          </div>
        ))}
        <Account />
      </nav>
    </div>
  );
}

const kindNames = {
  routing: 'Routing key',
  management: 'Management key',
  admin: 'Admin token',
} as const;

function Account() {
  const { kind, keyObject, signOut } = useSession();
  const { theme, toggle } = useTheme();
  const other = theme === 'dark' ? 'light' : 'dark';
  return (
    <div class="account">
      <p>
        <b>{keyObject?.name || kindNames[kind]}</b>
        <span>{keyObject ? kindNames[kind] : 'Operator'}</span>
        {keyObject && <span class="one-line">{keyObject.label}</span>}
      </p>
      <div class="buttons">
        <button
          type="button"
          class="secondary small"
          onClick={toggle}
          aria-label={`Switch to ${other} theme`}
        >
          <Icon name={theme === 'dark' ? 'sun' : 'moon'} />
        </button>
        <button type="button" class="secondary small" onClick={signOut}>
          <Icon name="out" />
          Sign out
        </button>
      </div>
    </div>
  );
}

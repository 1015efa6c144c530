import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Icon, type IconName, Mark } from './components/icon.tsx';
import { Page } from './components/page.tsx';
import { Byok } from './pages/byok.tsx';
import { CreditsPage } from './pages/credits.tsx';
import { Jobs } from './pages/jobs.tsx';
import { Keys } from './pages/keys.tsx';
import { Logs } from './pages/logs.tsx';
import { Models } from './pages/models.tsx';
import { Operator } from './pages/operator.tsx';
import { Overview } from './pages/overview.tsx';
import { Playground } from './pages/playground.tsx';
import { Skills } from './pages/skills.tsx';
import { addressOf, useRoute } from './route.ts';
import { mayDo, type Session, useSession } from './session.ts';
import type { Scope } from './shapes.ts';
import { useTheme } from './theme.ts';

interface Item {
  readonly group: string;
  /** The page's path and icon name; empty for the front page, whose icon is `overview`. */
  readonly page: IconName | '';
  readonly title: string;
  readonly show: () => VNode;
  readonly access: AccessRule;
}

/** Which keys may see a page, and which key to bring if the present one may not. */
interface AccessRule {
  readonly fits: (session: Session) => boolean;
  readonly name: string;
}

const ofTenant: AccessRule = { fits: ({ kind }) => kind !== 'admin', name: 'a key of a tenant' };
const ofManager: AccessRule = {
  fits: ({ kind }) => kind === 'management',
  name: 'a management key (sk-mgmt-…)',
};
const ofOperator: AccessRule = {
  fits: ({ kind }) => kind === 'admin',
  name: 'the admin token (sk-admin-…)',
};
const withScope = (scope: Scope): AccessRule => ({
  fits: (session) => mayDo(session, scope),
  name: `a key of a tenant with the scope “${scope}”`,
});

function item(
  group: string,
  page: Item['page'],
  title: string,
  show: Item['show'],
  access: AccessRule,
): Item {
  return { group, page, title, show, access };
}

const items: readonly Item[] = [
  item('Money and traffic', '', 'Overview', Overview, withScope('customer')),
  item('Money and traffic', 'logs', 'Logs', Logs, withScope('customer')),
  item('Money and traffic', 'credits', 'Credits', CreditsPage, withScope('customer')),
  item('Build', 'models', 'Models', Models, ofTenant),
  item('Build', 'playground', 'Playground', Playground, withScope('chat')),
  item('Build', 'jobs', 'Jobs', Jobs, withScope('jobs')),
  item('Build', 'skills', 'Skills', Skills, withScope('customer')),
  item('Manage', 'keys', 'Keys', Keys, ofManager),
  item('Manage', 'byok', 'Own accounts', Byok, ofManager),
  item('Installation', 'operator', 'Operator', Operator, ofOperator),
];

export function Shell() {
  const session = useSession();
  const { page } = useRoute();
  const allowed = items.filter(({ access }) => access.fits(session));
  const requestedItem = items.find((one) => one.page === page);
  // A user who may not see the front page gets the first page that is allowed.
  const shown =
    page === '' ? (allowed.find((one) => one.page === '') ?? allowed[0]) : requestedItem;
  const isAllowed = shown !== undefined && allowed.includes(shown);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <Navigation items={allowed} current={shown?.page ?? page} />
      {isAllowed ? <shown.show key={shown.page} /> : <NoAccess requestedItem={requestedItem} />}
    </div>
  );
}

function NoAccess({ requestedItem }: { readonly requestedItem: Item | undefined }) {
  const why = requestedItem
    ? `The key you signed in with does not open this page; it takes ${requestedItem.access.name}.`
    : 'There is no such page here.';
  return (
    <Page title={requestedItem ? 'Not for this key' : 'Not found'}>
      <p class="note">
        {why} <a href={addressOf('')}>Go to the first page</a>.
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
        <a class="brand" href={addressOf('')}>
          <Mark />
          <span>Tollgate</span>
        </a>
        <button
          type="button"
          class="quiet small menu-button"
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
                  href={addressOf(page)}
                  onClick={() => setOpen(false)}
                  {...(page === current ? { 'aria-current': 'page' as const } : {})}
                >
                  <Icon name={page || 'overview'} />
                  {title}
                </a>
              ))}
          </div>
        ))}
        <Whoami />
      </nav>
    </div>
  );
}

const kindNames = {
  routing: 'Routing key',
  management: 'Management key',
  admin: 'Admin token',
} as const;

function Whoami() {
  const { kind, about, signOut } = useSession();
  const { theme, toggle } = useTheme();
  const other = theme === 'dark' ? 'light' : 'dark';
  return (
    <div class="whoami">
      <p>
        <b>{about?.name || kindNames[kind]}</b>
        <span>{about ? kindNames[kind] : 'Operator of this Tollgate'}</span>
        {about && <span class="one-line">{about.label}</span>}
      </p>
      <div class="buttons">
        <button
          type="button"
          class="quiet small"
          onClick={toggle}
          aria-label={`Use ${other} colours`}
        >
          <Icon name={theme === 'dark' ? 'sun' : 'moon'} />
        </button>
        <button type="button" class="quiet small" onClick={signOut}>
          <Icon name="out" />
          Sign out
        </button>
      </div>
    </div>
  );
}

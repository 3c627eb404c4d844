// 1. log in   a link with the token behind `#`, which no server and no log sees
// 2. live     the server says that something has changed: ask for this page again, and put in what is new
// 3. load     a part that takes a moment comes after the page
// 4. age      "3 s ago" goes on; the moment itself is in the viewer's zone, and shown after a tap on it
// 5. charts   the values of a bar, by a slider below it or a tap on it
// 6. keys     Escape closes what asks, / goes to the search
// 7. colours  light or dark, kept in a cookie, so that the server sends the page in them
'use strict'

const login = document.querySelector('form[data-login]')
if (login && location.hash.length > 1) {
  login.elements.token.value = decodeURIComponent(location.hash.slice(1))
  history.replaceState(null, '', location.pathname + location.search)
  login.requestSubmit()
}

// Whoever types, chooses or reads an opened part must not lose it.
const inUse = (part) => part.contains(document.activeElement) && document.activeElement !== document.body && !document.activeElement.matches('a')
  || part.querySelector('details[open], input:checked') || !getSelection().isCollapsed && part.contains(getSelection().anchorNode)

// A link that has the focus has it afterwards, too: who goes through a table by keyboard stays in its place.
function replace (part, other) {
  const link = part.contains(document.activeElement) && document.activeElement.getAttribute('href')
  part.innerHTML = other.innerHTML
  if (link) part.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true })
}

async function refresh () {
  const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, redirect: 'error' })
  if (!answer.ok) throw new Error(`the page is ${answer.status}`)
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
  for (const part of document.querySelectorAll('[data-live]')) {
    const other = fresh.getElementById(part.id)
    if (other && other.innerHTML !== part.innerHTML && !inUse(part)) replace(part, other)
  }
  age()
  sliders()
}

for (const part of document.querySelectorAll('[data-load]')) {
  fetch(part.dataset.load, { headers: { Accept: 'text/html' }, redirect: 'error' }).then((answer) => answer.text()).then((text) => {
    const fresh = new DOMParser().parseFromString(text, 'text/html')
    part.innerHTML = (fresh.getElementById(part.id) ?? fresh.querySelector('main')).innerHTML
  }, () => { location.href = part.dataset.load }).finally(() => { part.removeAttribute('data-load') })
}

// A search for a text goes on to its end, and shows what it finds, the newest first; a reader who has enough leaves.
const foundAt = (row) => row.querySelector('time')?.dateTime ?? ''
async function search () {
  const rows = document.querySelector('#jobs tbody')
  for (let link; rows && rows.rows.length < 500 && (link = document.getElementById('further'));) {
    const answer = await fetch(link.href, { headers: { Accept: 'text/html' }, redirect: 'error' })
    if (!answer.ok) return
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
    for (const row of fresh.querySelectorAll('#jobs tbody tr')) {
      if (rows.querySelector(`a[href="${CSS.escape(row.querySelector('a').getAttribute('href'))}"]`)) continue
      rows.insertBefore(row, [...rows.rows].find((other) => foundAt(other) < foundAt(row)) ?? null)
    }
    const said = fresh.querySelector('#jobs p')
    said.firstChild.textContent = said.firstChild.textContent.replace(/^\s*(\d+ jobs?, the newest first|Not found yet|No job fits)/, `${rows.rows.length} found, the newest first`)
    document.querySelector('#jobs p').replaceWith(said)
  }
}
search()

if (document.querySelector('[data-live]')) {
  const OLD = 'out of date; reload the page'
  let stream, busy = false, again = false
  const changed = async () => {
    if (busy) { again = true; return }
    busy = true
    try { await refresh(); say('live') } catch { say(OLD) }  // the next change tries again
    setTimeout(() => { busy = false; if (again) { again = false; changed() } }, 1000)
  }
  const state = document.getElementById('live')
  const say = (text) => {
    if (!state || state.textContent === text) return
    state.textContent = text
    state.classList.toggle('on', text === 'live')
  }
  const open = () => {
    stream = new EventSource('/live')
    stream.addEventListener('change', changed)
    stream.onopen = () => say('live')
    stream.onerror = ({ target }) => say(target.readyState === EventSource.CLOSED ? OLD : 'reconnecting')
  }
  // A page that nobody sees asks for nothing.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { stream?.close(); stream = null } else if (!stream) { open(); changed() }
  })
  if (!document.hidden) open()
}

function span (seconds) {
  if (seconds < 100) return Math.round(seconds) + ' s'
  const minutes = seconds / 60, hours = seconds / 3600
  if (minutes < 100) return Math.round(minutes) + ' min'
  return hours < 48 ? Math.floor(hours) + ' h ' + Math.floor(minutes % 60) + ' min' : Math.round(hours / 24) + ' d'
}
const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })
let exactly = false
function age () {
  for (const time of document.querySelectorAll('time[data-clock]')) {
    time.textContent = new Date(time.dateTime).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
  }
  for (const time of document.querySelectorAll('time:not([data-clock])')) {
    const at = Date.parse(time.dateTime), apart = (Date.now() - at) / 1000
    if (!time.dataset.local) time.title = time.dataset.local = local.format(at)
    const ago = Math.abs(apart) < 1 ? 'now' : apart > 0 ? span(apart) + ' ago' : 'in ' + span(-apart)
    const text = exactly || time.className === 'exact' ? time.dataset.local : ago
    if (time.textContent !== text) time.textContent = text
  }
}
age()
setInterval(age, 1000)

document.addEventListener('change', (event) => {
  if (event.target.matches('input[data-all]')) {
    for (const box of event.target.form.elements) if (box.type === 'checkbox') box.checked = event.target.checked
  }
})

function slider (chart) {
  const bars = [...chart.querySelectorAll('g:has(rect)')], places = bars.map((bar) => (bar.querySelector('rect').getAttribute('x') - 1) / 10)
  if (!bars.length || chart.nextElementSibling?.type === 'range') return
  let at = places.at(-1)
  const range = Object.assign(document.createElement('input'), { type: 'range', max: chart.viewBox.baseVal.width / 10 - 1, ariaLabel: 'Bars of the chart' })
  range.value = at
  const said = document.createElement('output')
  const show = (place) => {  // the next bar on the way there; many minutes have none
    const found = place >= at ? places.find((each) => each >= place) : places.findLast((each) => each <= place)
    range.value = at = found ?? places.at(place >= at ? -1 : 0)
    const bar = bars[places.indexOf(at)]
    for (const each of bars) each.classList.toggle('on', each === bar)
    said.textContent = range.ariaValueText = local.format(Number(bar.dataset.at)) + bar.querySelector('title').textContent.split(' UTC')[1]
  }
  range.addEventListener('input', () => show(Number(range.value)))
  chart.addEventListener('click', ({ clientX }) => {
    const { left, width } = chart.getBoundingClientRect()
    const place = (clientX - left) / width * (Number(range.max) + 1) - 0.5
    show(places.reduce((best, each) => Math.abs(each - place) < Math.abs(best - place) ? each : best))
    range.focus()
  })
  chart.after(range, said)
}
const sliders = () => document.querySelectorAll('.chart').forEach(slider)
sliders()

document.addEventListener('keydown', ({ key, target, ctrlKey, altKey, metaKey }) => {
  const asking = [...document.querySelectorAll('details.ask[open]')].pop()
  if (key === 'Escape' && asking) { asking.open = false; asking.firstElementChild.focus() }
  const search = document.querySelector('input[type=search]')
  const types = target.matches('input:not([type=checkbox], [type=range]), select, textarea')
  if (key === '/' && search && !(types || ctrlKey || altKey || metaKey)) setTimeout(() => search.focus())
})
document.addEventListener('click', ({ target }) => {
  for (const each of document.querySelectorAll('td details.ask[open]')) if (!each.contains(target)) each.open = false
  if (target.matches('time')) { exactly = !exactly; age() }
})

const theme = document.getElementById('theme'), page = document.documentElement
if (theme) {
  theme.hidden = false
  theme.value = page.dataset.theme ?? ''
  theme.addEventListener('change', () => {
    document.cookie = `fusiond-theme=${theme.value}; path=/; max-age=31536000; samesite=strict`
    page.dataset.theme = theme.value
  })
}
